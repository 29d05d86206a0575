"""Rows become batches that fit the model, or an error says what does not fit."""

import pytest
import torch
import transformers
from ownmodels import SMALL, classifier, language_model, tokenizer, translator

from headprune_lib.cli.quality import quality
from headprune_lib.cli.text_batches import make_own_batches
from headprune_lib.cli.text_files import Rows


def test_classes_by_name_or_number_shortest_text_first():
    rows = Rows(["the film is good", "bad"], labels=["positive", "0"])
    (batch,) = make_own_batches(classifier(), tokenizer(), rows, 8, 32)
    assert batch["labels"].tolist() == [0, 1]
    assert batch["attention_mask"].sum(1).tolist() == [3, 6]  # with a mark at both ends


def test_names_of_classes_that_are_numbers_go_before_numbers():
    stars = classifier(
        id2label={0: "1", 1: "2", 2: "3"}, label2id={"1": 0, "2": 1, "3": 2}, num_labels=3
    )
    (batch,) = make_own_batches(stars, tokenizer(), Rows(["a", "a", "a"], labels=[1, "2", 3]), 8, 9)
    assert batch["labels"].tolist() == [0, 1, 2]
    with pytest.raises(
        ValueError, match=r"label '0' is none of the model's 3 .*\['1', '2', '3'\]$"
    ):
        make_own_batches(stars, tokenizer(), Rows(["a"], labels=["0"]), 8, 9)


def test_a_regressions_labels_are_numbers_and_have_no_accuracy():
    model = classifier(id2label={0: "stars"}, label2id={"stars": 0})
    rows = Rows(["bad film", "the film is good"], labels=["1.5", -100])
    (batch,) = make_own_batches(model, tokenizer(), rows, 8, 32)
    assert batch["labels"].tolist() == [1.5, -100]
    found = quality(model, [batch])
    expected = (logits(batch, model).flatten() - batch["labels"]).square().mean()
    assert found == {"loss": pytest.approx(float(expected))}


@pytest.mark.parametrize("piece", [0, 2, 9])
def test_a_decoders_classifier_reads_the_same_position_in_any_batch(piece):
    # it finds the last piece of a text by the configuration's padding piece
    torch.manual_seed(0)
    model = transformers.LlamaForSequenceClassification(
        transformers.LlamaConfig(**SMALL, pad_token_id=piece, initializer_range=0.3)
    ).eval()
    words = tokenizer()
    words.pad_token = None
    rows = Rows(["good", "the film is good", "a very dull plot"], labels=[0, 1, 1])
    alone = [
        row for batch in make_own_batches(model, words, rows, 1, 32) for row in logits(batch, model)
    ]
    together = [
        row for batch in make_own_batches(model, words, rows, 8, 32) for row in logits(batch, model)
    ]
    torch.testing.assert_close(torch.stack(alone), torch.stack(together))


def logits(batch, model):
    with torch.no_grad():
        return model(**{name: batch[name] for name in batch if name != "labels"}).logits


def test_a_classifier_with_a_decoder_is_a_classifier():
    config = translator().config
    model = transformers.T5ForSequenceClassification(config).eval()
    rows = Rows(["bad film"], labels=[1])
    assert make_own_batches(model, tokenizer(), rows, 8, 32)[0]["labels"].tolist() == [1]


def test_a_language_model_learns_its_own_text_without_padding():
    rows = Rows(["the film is good", "bad film"])
    (batch,) = make_own_batches(language_model(), tokenizer(), rows, 8, 32)
    assert (batch["labels"] == -100).sum() == 2
    assert torch.equal(batch["labels"][1], batch["input_ids"][1])


def test_a_translation_is_shifted_for_the_decoder():
    (batch,) = make_own_batches(
        translator(), tokenizer(), Rows(["bad film"], targets=["good plot"]), 8, 32
    )
    assert torch.equal(batch["decoder_input_ids"][:, 1:], batch["labels"][:, :-1])


@pytest.mark.parametrize(
    ("model", "rows", "message"),
    [
        (
            classifier,
            Rows(["a"]),
            "for classification, and the file's columns are those for language model",
        ),
        (
            translator,
            Rows(["a"], labels=["0"]),
            "for translation, and the file's columns are those for classification",
        ),
        (
            classifier,
            Rows(["a"], labels=["maybe"]),
            r"label 'maybe' is none of the model's 2 classes",
        ),
    ],
)
def test_rows_that_do_not_fit_the_model(model, rows, message):
    with pytest.raises(ValueError, match=message):
        make_own_batches(model(), tokenizer(), rows, 8, 32)


@pytest.mark.parametrize("kind", ["language model", "classes", "yes or no", "numbers"])
def test_the_loss_is_a_mean_over_what_transformers_own_is_one_over(kind):
    if kind == "language model":
        model, rows = language_model(), Rows(["a very good film", "bad"])
        (batch,) = make_own_batches(model, tokenizer(), rows, 8, 32)
    else:
        problem = {"yes or no": "multi_label_classification", "numbers": "regression"}.get(kind)
        model = classifier(num_labels=3, problem_type=problem)
        (batch,) = make_own_batches(
            classifier(num_labels=3), tokenizer(), Rows(["good", "bad"], labels=["0", "1"]), 8, 32
        )
        numbers = {"yes or no": [[1.0, 0, 1], [0, 1, 1]], "numbers": [[1.5, 0, 2], [1, 1, 0.5]]}
        if kind in numbers:
            batch["labels"] = torch.tensor(numbers[kind])
    with torch.no_grad():
        own = float(model(**batch).loss)
    assert quality(model, [batch])["loss"] == pytest.approx(own, rel=1e-5)


def test_texts_that_have_nothing_to_predict_have_no_loss():
    model = language_model()
    (batch,) = make_own_batches(model, tokenizer(), Rows(["good"]), 8, 32)
    batch["labels"][:, 1:] = -100
    with pytest.raises(ValueError, match="no label counts in any batch"):
        quality(model, [batch])


@pytest.mark.parametrize(
    ("model", "columns"),
    [
        (classifier, "text and label, or text, text2 and label"),
        (translator, "source and target"),
    ],
)
def test_a_column_that_is_missing_is_named(model, columns):
    message = f"file's columns are those for language model; expected the columns {columns}"
    with pytest.raises(ValueError, match=message):
        make_own_batches(model(), tokenizer(), Rows(["good"]), 8, 32)
