"""Derivatives in the gates, and the model between two batches."""

import pytest
import torch
from gates import ROUNDING, gate_derivatives, rows_of
from tiny import batch, build

from headprune_lib.criteria.gradients import batch_gradients, gate_gradients
from headprune_lib.heads import find_heads


def test_every_position_of_every_example(model, examples):
    found = gate_gradients(model, examples)
    for i, row in enumerate(rows_of(examples)):
        for block, each in zip(find_heads(model), found, strict=True):
            torch.testing.assert_close(each[i], gate_derivatives(model, row)[block], **ROUNDING)


def test_padding_has_no_gradient(model, examples):
    padding, last = examples["attention_mask"] == 0, gate_gradients(model, examples)[-1]
    assert padding.any() and last[padding].abs().max() == 0


def state(model):
    return (
        [module.training for module in model.modules()],
        [parameter.requires_grad for parameter in model.parameters()],
        [len(module._forward_pre_hooks) for module in model.modules()],
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
    )


def test_between_two_batches_the_model_is_its_owners():
    model = build().train()
    model.classifier.weight.requires_grad_(False)
    before = state(model)
    gradients = batch_gradients(model, [batch(2), batch(3)], find_heads(model), None, None)
    for _ in gradients:
        assert state(model) == before
    kept = batch_gradients(model, [batch(2), batch(3)], find_heads(model), None, None)
    next(kept)  # kept, half used
    assert state(model) == before


def test_an_error_in_a_loss_leaves_the_model_alone():
    model = build().train()
    before = state(model)

    def broken(outputs, inputs):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        gate_gradients(model, batch(2), loss=broken)
    assert state(model) == before
