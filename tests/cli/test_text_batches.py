"""Rows become batches that fit the model, or an error says what does not fit."""

import pytest
import torch
from ownmodels import classifier, language_model, tokenizer, translator

from headprune_lib.cli.text_batches import make_own_batches
from headprune_lib.cli.text_files import Rows


def test_classes_by_name_or_number_shortest_text_first():
    rows = Rows(["the film is good", "bad"], labels=["positive", "0"])
    (batch,) = make_own_batches(classifier(), tokenizer(), rows, 8, 32)
    assert batch["labels"].tolist() == [0, 1]
    assert batch["attention_mask"].sum(1).tolist() == [3, 6]  # with a mark at both ends


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
        (classifier, Rows(["a"]), "for classification, the file is for language model"),
        (translator, Rows(["a"], labels=["0"]), "for translation, the file is for classification"),
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
