"""A file becomes rows, and rows batches that fit the model."""

import json
import tempfile
from pathlib import Path

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from ownmodels import classifier, language_model, tokenizer, translator
from tiny import logits_of

from headprune_lib.cli.data import Rows, make_batches, read_rows
from headprune_lib.cli.quality import quality

CLASSES, LANGUAGE = "classification", "language model"


def written(path, text):
    path.write_text(text)
    return path


def test_all_formats_hold_the_same_and_other_columns_are_passed_over(tmp_path):
    tsv = written(tmp_path / "a.tsv", 'id\ttext\ttext2\tlabel\n\ta "b\tc\tno\n7\td\te, f\tyes\n')
    comma = written(tmp_path / "a.csv", 'text,text2,label\n"a ""b",c,no\nd,"e, f",yes\n')
    rows = [
        {"text": 'a "b', "text2": "c", "label": "no"},
        {"text": "d", "text2": "e, f", "label": "yes", "id": 7},
    ]
    jsonl = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    expected = Rows(['a "b', "d"], ["c", "e, f"], ["no", "yes"])
    for path in (tsv, comma, jsonl):
        assert read_rows(path, CLASSES) == read_rows(path, CLASSES, ["text", "text2"]) == expected
        assert read_rows(path, LANGUAGE) == Rows(expected.texts)
        assert read_rows(path, CLASSES, ["text2"]) == Rows(expected.second, labels=["no", "yes"])
        assert read_rows(path, "translation", ["text2", "text"]) == Rows(
            expected.second, targets=expected.texts
        )
    pairs = written(tmp_path / "b.tsv", "source\ttarget\na\tb\n")
    assert read_rows(pairs, "translation") == Rows(["a"], targets=["b"])


def test_a_mark_at_the_start_and_blank_lines_are_passed_over(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"\xef\xbb\xbftext\r\nbad film\r\n\r\n")
    assert read_rows(path, LANGUAGE) == Rows(["bad film"])
    path = written(tmp_path / "a.jsonl", '{"text": "bad film"}\n\n')
    assert read_rows(path, LANGUAGE) == Rows(["bad film"])


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), min_size=1))
def test_any_text_is_read_back(texts):
    with tempfile.TemporaryDirectory() as folder:
        jsonl, tsv, comma = (Path(folder) / f"a.{end}" for end in ("jsonl", "tsv", "csv"))
        jsonl.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        tsv.write_text("text\tlabel\n" + "".join(f"{text}\t1\n" for text in texts), "utf-8")
        quoted = ('"' + text.replace('"', '""') + '"' for text in texts)
        comma.write_text("text\n" + "\n".join(quoted) + "\n", "utf-8")
        for path in (jsonl, tsv, comma):
            assert read_rows(path, LANGUAGE).texts == texts


def batch_of(model, *texts, **columns):
    """All rows, in one batch."""
    (batch,) = make_batches(model, tokenizer(), Rows([*texts], **columns), 8, 32)
    return batch


def test_classes_by_name_or_number_shortest_text_first():
    batch = batch_of(classifier(), "the film is good", "bad", labels=["positive", "0"])
    assert batch["labels"].tolist() == [0, 1]
    assert batch["attention_mask"].sum(1).tolist() == [3, 6]  # with a mark at both ends


def test_names_of_classes_that_are_numbers_go_before_numbers():
    stars = classifier(
        id2label={0: "1", 1: "2", 2: "3"}, label2id={"1": 0, "2": 1, "3": 2}, num_labels=3
    )
    assert batch_of(stars, "a", "a", "a", labels=[1, "2", 3])["labels"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"'0' is not one of the model's 3 .*\['1', '2', '3'\]$"):
        batch_of(stars, "a", labels=["0"])


def test_a_regressions_labels_are_numbers_and_have_no_accuracy():
    model = classifier(id2label={0: "stars"}, label2id={"stars": 0})
    batch = batch_of(model, "bad film", "the film is good", labels=["1.5", -100])
    assert batch["labels"].tolist() == [1.5, -100]
    found = quality(model, [batch])
    expected = (logits_of(model, batch).flatten() - batch["labels"]).square().mean()
    assert found == {"loss": pytest.approx(float(expected))}


@pytest.mark.parametrize("piece", [0, 2, 9])
def test_a_decoders_classifier_reads_the_same_position_in_any_batch(piece):
    # it finds the last token of a text by the configuration's padding token
    model = language_model(transformers.LlamaForSequenceClassification, pad_token_id=piece)
    words = tokenizer()
    words.pad_token = None
    rows = Rows(["good", "the film is good", "a very dull plot"], labels=[0, 1, 1])
    alone, together = (
        torch.cat([logits_of(model, batch) for batch in make_batches(model, words, rows, n, 32)])
        for n in (1, 8)
    )
    torch.testing.assert_close(alone, together)


def test_what_language_models_translators_and_classifiers_with_a_decoder_learn():
    batch = batch_of(language_model(), "the film is good", "bad film")
    assert (batch["labels"] == -100).sum() == 2  # padding
    assert torch.equal(batch["labels"][1], batch["input_ids"][1])
    batch = batch_of(translator(), "bad film", targets=["good plot"])
    assert torch.equal(batch["decoder_input_ids"][:, 1:], batch["labels"][:, :-1])
    model = transformers.T5ForSequenceClassification(translator().config).eval()
    assert batch_of(model, "bad film", labels=[1])["labels"].tolist() == [1]


@pytest.mark.parametrize("kind", ["language model", "classes", "yes or no", "numbers"])
def test_the_loss_is_a_mean_over_what_transformers_own_is_one_over(kind):
    if kind == "language model":
        model = language_model()
        batch = batch_of(model, "a very good film", "bad")
    else:
        problem = {"yes or no": "multi_label_classification", "numbers": "regression"}.get(kind)
        model = classifier(num_labels=3, problem_type=problem)
        batch = batch_of(classifier(num_labels=3), "good", "bad", labels=["0", "1"])
        numbers = {"yes or no": [[1.0, 0, 1], [0, 1, 1]], "numbers": [[1.5, 0, 2], [1, 1, 0.5]]}
        if kind in numbers:
            batch["labels"] = torch.tensor(numbers[kind])
    own = model(**batch).loss.item()
    assert quality(model, [batch])["loss"] == pytest.approx(own, rel=1e-5)


def test_texts_that_have_nothing_to_predict_have_no_loss():
    model = language_model()
    batch = batch_of(model, "good")
    batch["labels"][:, 1:] = -100
    with pytest.raises(ValueError, match="no label counts in any batch"):
        quality(model, [batch])
