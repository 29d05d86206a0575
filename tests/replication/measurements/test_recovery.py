"""Training again after heads were removed, against masks before it and plain loops through it."""

import copy

import numpy as np
import plainly
import pytest
import torch

from headprune_lib import head_importance, order_mask, prune_heads, rank_heads
from headprune_lib.replication import measurements
from headprune_lib.replication.measurements.orders import n_cut
from headprune_lib.replication.measurements.recovery import read_part
from headprune_lib.replication.models import encoders as retraining
from headprune_lib.replication.setups import EncoderSubject, TranslationSubject
from headprune_lib.replication.store.packing import heads_in

ENCODER = ("importance 40% all weights", "importance 40% LoRA", "random 60% LoRA", "uncut 0% LoRA")
TRANSLATOR = ("uncut 0% all weights", "random 60% all weights")


@pytest.fixture(scope="module")
def result(smoke):
    return measurements.get("recovery", smoke, parts=ENCODER)


@pytest.fixture
def subject(smoke):
    return EncoderSubject.of(smoke, kernel="eager")


def without(model, heads):
    return prune_heads(copy.deepcopy(model), order_mask(model, heads, len(heads)))


def test_before_training_a_removed_head_is_a_masked_one(result, smoke, subject):
    weights = {name: value.clone() for name, value in subject.model.state_dict().items()}
    scores = head_importance(subject.model, subject.batches(subject.scoring).batches)
    for name in ENCODER[1:]:
        order, share, _ = read_part(name)
        raw = result.parts[name].raw
        n_runs = smoke.recovery.random_orders if "random" in name else 1
        assert raw["heads"].shape[:2] == (n_runs, n_cut(8, share)) and (raw["seconds"] > 0).all()
        for run, stored in enumerate(raw["heads"]):
            heads = heads_in(stored)
            if order == "importance":
                assert heads == rank_heads(scores)[: len(heads)]
            mask = order_mask(subject.model, heads, len(heads))
            right, nats = plainly.answers(subject, subject.test, mask)
            np.testing.assert_array_equal(raw["correct_before"][run], right)
            np.testing.assert_allclose(raw["loss_before"][run] / 1000, nats, atol=1e-3)
            left = sum(weight.numel() for weight in without(subject.model, heads).parameters())
            assert raw["parameters"][run, 1] == left
            assert (left < raw["parameters"][run, 0]) == bool(heads)
        assert np.abs(raw["loss_after"] - raw["loss_before"]).max() > 10
    whole, lora = (result.parts[name].raw for name in ENCODER[:2])
    np.testing.assert_array_equal(whole["loss_before"], lora["loss_before"])
    assert np.abs(whole["loss_after"] - lora["loss_after"]).max() > 10
    stored = EncoderSubject.of(smoke, kernel="eager").model.state_dict()
    assert all(torch.equal(stored[name], value) for name, value in weights.items())


def test_training_all_weights_is_a_plain_loop(result, smoke, subject):
    raw = result.parts["importance 40% all weights"].raw
    model = without(subject.model, heads_in(raw["heads"][0]))
    model.base_model.embeddings.requires_grad_(False)
    torch.manual_seed(retraining.SEED)
    batches = [*plainly.epochs_of(smoke, smoke.finetuning, retraining.SEED)]
    plainly.fitted(model, batches, smoke.finetuning)
    _, nats = plainly.answers(subject, subject.test, model=model)
    np.testing.assert_allclose(raw["loss_after"][0] / 1000, nats, atol=1e-3)


def test_lora_moves_projections_alone(subject, smoke):
    model = without(subject.model, [("self", 0, head) for head in range(4)])  # an empty layer
    before = {name: value.clone() for name, value in model.state_dict().items()}
    after = retraining.retrained(subject, model, "LoRA", "none in the first layer")
    assert not after.training and list(after.state_dict()) == list(before)
    moved = {n for n, value in after.state_dict().items() if not torch.equal(value, before[n])}
    expected = {f"{name}.weight" for name in retraining.projections(after)}
    empty = {name for name in expected if not before[name].numel()}
    assert len(empty) == 4 and moved == expected - empty
    assert not any("pooler" in name or "classifier" in name for name in expected)
    for name in moved:
        change = (after.state_dict()[name] - before[name]).double()
        assert torch.linalg.matrix_rank(change, atol=1e-5) <= smoke.recovery.lora.rank


def test_before_training_a_translator_loses_what_its_masks_cut(smoke):
    result = measurements.get("recovery", smoke, task="toy", parts=TRANSLATOR)
    subject = TranslationSubject.of(smoke, "toy")
    for part, raw in ((name, one.raw) for name, one in result.parts.items()):
        (row,) = [one for one in result.values["recovered"] if part.startswith(one["order"])]
        assert len(row["before"]["runs"]) == len(raw["heads"])
        heads = heads_in(raw["heads"][-1])
        assert len(heads) == n_cut(24, read_part(part)[1])
        mask = order_mask(subject.model, heads, len(heads))
        bleu, (nats, pieces) = (
            of(subject, subject.headline, mask) for of in (plainly.bleu, plainly.reference_nats)
        )
        assert row["before"]["runs"][-1] == pytest.approx(bleu / 100, abs=1e-4)
        np.testing.assert_allclose(raw["loss_before"][-1] / 1000, nats / pieces, atol=1e-3)
