"""float32 and bfloat16 side by side, against plain passes and numbers made by hand."""

import numpy as np
import pytest
import torch

from headprune_lib import masked_heads, order_mask, prune_order, score_heads
from headprune_lib.batching import without_labels
from headprune_lib.replication import measurements
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.measurements.precision import SHARES, Statistics, _summarise


@pytest.fixture(scope="module")
def found(smoke):
    return measurements.get("precision", smoke)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_outcomes_are_those_of_plain_passes(smoke, found, precision):
    subject = EncoderSubject.of(smoke, kernel="eager")
    batches = subject.batches(subject.scoring).batches
    order = prune_order(score_heads(subject.model, batches))
    prepared = subject.batches(subject.test)
    for i, share in enumerate(SHARES):
        mask = order_mask(subject.model, order, int(np.ceil(share * len(order))))
        with (
            torch.no_grad(),
            masked_heads(subject.model, mask),
            torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"),
        ):
            made = [subject.model(**without_labels(batch)).logits for batch in prepared.batches]
        labels = torch.cat([batch["labels"] for batch in prepared.batches])
        logits = torch.cat(made).double()
        losses = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
        stored = found.raw[f"loss {precision}"][i] / 1000
        np.testing.assert_allclose(stored, prepared.restore(losses.numpy()), atol=2e-3)


def test_the_two_are_close_and_not_the_same(found):
    for row in found.values["rows"]:
        assert row["answers"] > 0.9 and 0 <= row["loss_apart"] < 0.05
    assert (found.raw["scores"] != found.raw["scores bfloat16"]).any()
    np.testing.assert_allclose(found.raw["scores"], found.raw["scores bfloat16"], rtol=0.1)


def test_values_of_numbers_made_by_hand():
    raw = {
        "shares": np.array([0.0, 0.5]),
        "scores": np.array([[1.0, 2, 3, 4]]),
        "scores bfloat16": np.array([[1.0, 3, 2, 4]]),
        "correct float32": np.array([[1, 1, 0, 0], [1, 1, 1, 1]], bool),
        "correct bfloat16": np.array([[1, 0, 0, 0], [1, 1, 1, 1]], bool),
        "alike bfloat16": np.array([[1, 0, 1, 1], [1, 1, 1, 1]], bool),
        "loss float32": np.array([[100, 200, 300, 400], [0, 0, 0, 0]], np.int16),
        "loss bfloat16": np.array([[110, 200, 290, 400], [0, 0, 0, 8]], np.int16),
    }
    values = _summarise("encoder", {"outcomes": raw}, {}, Statistics(resamples=100))
    first, second = values["rows"]
    assert first == {
        "share": 0.0,
        "float32": 0.5,
        "bfloat16": 0.25,
        "answers": 0.75,
        "loss_apart": pytest.approx(0.005),
    }
    assert (second["answers"], second["loss_apart"]) == (1.0, pytest.approx(0.002))
    assert values["spearman"] == pytest.approx(0.8)
    assert values["first_half"] == 0.5
