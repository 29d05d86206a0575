"""Files of one's own become batches, or an error that names the line and the remedy."""

import json

import pytest
import torch
from ownmodels import classifier, language_model, tokenizer, translator

from headprune_lib.cli.rows import Rows, make_own_batches, read_rows


def written(path, text):
    path.write_text(text)
    return path


def test_tsv_and_jsonl_hold_the_same(tmp_path):
    tsv = written(tmp_path / "a.tsv", 'text\ttext2\tlabel\na "b\tc\tno\nd\te f\tyes\n')
    rows = [{"text": 'a "b', "text2": "c", "label": "no"}, {"text": "d", "text2": "e f", "label": "yes"}]
    jsonl = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    expected = Rows(['a "b', "d"], ["c", "e f"], ["no", "yes"])
    assert read_rows(tsv) == read_rows(jsonl) == expected
    pairs = written(tmp_path / "b.tsv", "source\ttarget\na\tb\n")
    assert read_rows(pairs) == Rows(["a"], targets=["b"])


@pytest.mark.parametrize(("name", "text", "message"), [
    ("a.csv", "text,label", "neither .tsv nor .jsonl"),
    ("a.tsv", "", "No columns"),
    ("a.tsv", "text\tlabel\na\t1\nb\t1\t2\n", "line 3, saw 3"),
    ("a.tsv", "sentence\tlabel\na\t1\n", r"columns \['label', 'sentence'\], expected text and label"),
    ("a.tsv", "text\tlabel\n", "holds no row"),
    ("a.tsv", "text\tlabel\na\t1\n\t0\n", r"row 2: \['text'\] is missing or empty"),
    ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}\n', r"row 2: \['label'\] is missing"),
])
def test_a_file_that_cannot_be_used(tmp_path, name, text, message):
    with pytest.raises(ValueError, match=message):
        read_rows(written(tmp_path / name, text))
    with pytest.raises(FileNotFoundError, match="no file"):
        read_rows(tmp_path / "other.tsv")


def test_classes_by_name_or_number_shortest_text_first():
    rows = Rows(["the film is good", "bad"], labels=["positive", "0"])
    batch, = make_own_batches(classifier(), tokenizer(), rows, 8, 32)
    assert batch["labels"].tolist() == [0, 1]
    assert batch["attention_mask"].sum(1).tolist() == [3, 6]  # with a mark at both ends


def test_a_language_model_learns_its_own_text_without_padding():
    rows = Rows(["the film is good", "bad film"])
    batch, = make_own_batches(language_model(), tokenizer(), rows, 8, 32)
    assert (batch["labels"] == -100).sum() == 2
    assert torch.equal(batch["labels"][1], batch["input_ids"][1])


def test_a_translation_is_shifted_for_the_decoder():
    batch, = make_own_batches(translator(), tokenizer(), Rows(["bad film"], targets=["good plot"]),
                              8, 32)
    assert torch.equal(batch["decoder_input_ids"][:, 1:], batch["labels"][:, :-1])


@pytest.mark.parametrize(("model", "rows", "message"), [
    (classifier, Rows(["a"]), "for classification, the file is for language model"),
    (translator, Rows(["a"], labels=["0"]), "for translation, the file is for classification"),
    (classifier, Rows(["a"], labels=["maybe"]), r"label 'maybe' is none of the model's 2 classes"),
])
def test_rows_that_do_not_fit_the_model(model, rows, message):
    with pytest.raises(ValueError, match=message):
        make_own_batches(model(), tokenizer(), rows, 8, 32)
