"""Training again after heads were removed, against a plain loop."""

import copy

import numpy as np
import plainly
import pytest
import torch

from headprune_lib import order_mask, prune_heads
from headprune_lib.replication import measurements
from headprune_lib.replication.models import encoders as retraining
from headprune_lib.replication.setups import EncoderSubject
from headprune_lib.replication.store.heads import heads_in


@pytest.fixture
def subject(smoke):
    return EncoderSubject.of(smoke, kernel="eager")


def without(model, heads):
    return prune_heads(copy.deepcopy(model), order_mask(model, heads, len(heads)))


def test_training_all_weights_is_a_plain_loop(smoke, subject):
    part = "importance 40% all weights"
    raw = measurements.get("recovery", smoke, parts=[part]).parts[part].raw
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
