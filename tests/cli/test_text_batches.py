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
    alone, together = (
        torch.cat([logits(batch, model) for batch in make_own_batches(model, words, rows, n, 32)])
        for n in (1, 8)
    )
    torch.testing.assert_close(alone, together)


def logits(batch, model):
    with torch.no_grad():
        return model(**{name: batch[name] for name in batch if name != "labels"}).logits


def test_what_language_models_translators_and_classifiers_with_a_decoder_learn():
    (batch,) = make_own_batches(
        language_model(), tokenizer(), Rows(["the film is good", "bad film"]), 8, 32
    )
    assert (batch["labels"] == -100).sum() == 2  # padding
    assert torch.equal(batch["labels"][1], batch["input_ids"][1])
    pairs = Rows(["bad film"], targets=["good plot"])
    (batch,) = make_own_batches(translator(), tokenizer(), pairs, 8, 32)
    assert torch.equal(batch["decoder_input_ids"][:, 1:], batch["labels"][:, :-1])
    model = transformers.T5ForSequenceClassification(translator().config).eval()
    (batch,) = make_own_batches(model, tokenizer(), Rows(["bad film"], labels=[1]), 8, 32)
    assert batch["labels"].tolist() == [1]


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
