"""Code that hides a part of the derivative is seen, and held against finite differences."""

import copy

import pytest
import torch
from tiny import batch, build
from torch import nn
from torch.utils.checkpoint import checkpoint

from headprune_lib import find_heads, head_importance, score_heads
from headprune_lib.attention import recorded_weights
from headprune_lib.criteria import derivatives


class Hiding(nn.Module):
    """In a layer's place: it lets half of the gradient through, in one of several ways."""

    def __init__(self, layer, way):
        super().__init__()
        self.layer, self.way = layer, way

    def forward(self, *args, **kwargs):
        made = self.layer(*args, **kwargs)
        if self.way == "detach":
            return (made + made.detach()) / 2
        if self.way == "data":
            return (made + made.data) / 2
        if self.way == "no_grad":
            with torch.no_grad():
                other = made * 1
            return (made + other) / 2
        if self.way == "own backward":
            return _Halved.apply(made)
        if self.way == "logged":  # what the loss does not use
            self.last = made.detach().abs().mean()
        if self.way == "checkpoint":
            return checkpoint(lambda x: x * 1, made, use_reentrant=False)
        if self.way == "straight":  # the same number, and its whole gradient
            return made + made.detach() - made.detach()
        return made


class _Halved(torch.autograd.Function):
    @staticmethod
    def forward(_context, x):
        return x

    @staticmethod
    def backward(_context, gradient):
        return gradient / 2


def hiding(way):
    model = build("bert")
    layers = model.bert.encoder.layer
    layers[0] = Hiding(layers[0], way)
    return model


@pytest.mark.parametrize("by", ["importance", "fisher", "gates", "second-order"])
@pytest.mark.parametrize("way", ["detach", "data", "no_grad", "own backward"])
def test_half_a_gradient_is_refused_with_what_was_seen(way, by):
    seen = (
        "_HalvedBackward" if way == "own backward" else r"test_derivatives.py:\d+ goes on without"
    )
    with pytest.raises(ValueError, match=f"BertFor.*is not the derivative of the loss.*{seen}"):
        score_heads(hiding(way), [batch(3)], by)


def test_a_small_part_is_held_too_where_the_loss_does_not_depend_on_another():
    model = build("bert")
    _, small, without = (layer.attention.output.dense for layer in model.bert.encoder.layer)
    small.weight.data *= 1e-3
    without.weight.data.zero_()  # no head of the last layer matters
    score_heads(model, [batch(3)], "importance")
    small.register_forward_hook(lambda _module, _given, made: (made + made.detach()) / 2)
    other = copy.deepcopy(model)  # which nobody trusts yet
    with pytest.raises(ValueError, match=r"test_derivatives.py:\d+ goes on without a gradient"):
        score_heads(other, [batch(3)], "importance")


@pytest.mark.parametrize("smooth", [0, 1, 2])
def test_where_the_loss_jumps_one_step_that_agrees_by_chance_is_not_enough(smooth, monkeypatch):
    steps, masked, losses = [], derivatives.masked_heads, derivatives.example_losses

    def noted(model, mask):
        steps.append(max(float((one - 1).abs().max()) for one in mask.values()))
        return masked(model, mask)

    def jumping(*given):
        made = losses(*given)
        calm = steps[-1] in (0, *derivatives._STEPS[:smooth])
        return made if calm else made + torch.rand(len(made), dtype=made.dtype)

    monkeypatch.setattr(derivatives, "masked_heads", noted)
    monkeypatch.setattr(derivatives, "example_losses", jumping)
    if smooth == 2:
        assert head_importance(hiding("logged"), [batch(3)])["self"].isfinite().all()
        return
    with pytest.raises(ValueError, match="autograd says .*, finite differences "):
        head_importance(hiding("logged"), [batch(3)])


@pytest.mark.parametrize("way", ["logged", "checkpoint", "straight", ""])
def test_what_is_seen_and_does_no_harm_is_let_through(way, monkeypatch):
    held, whole = [], derivatives._other_derivative
    monkeypatch.setattr(
        derivatives, "_other_derivative", lambda *args: held.append(whole(*args)) or held[-1]
    )
    expected = head_importance(build("bert"), [batch(3)])["self"]
    assert held == []  # nothing is seen in a plain model
    found = head_importance(hiding(way), [batch(3), batch(2)])["self"]
    assert held == ([""] if way in ("logged", "straight") else [])  # once, and not for each batch
    assert found.shape == expected.shape
    torch.testing.assert_close(
        head_importance(hiding(way), [batch(3)])["self"], expected, rtol=1e-6, atol=1e-9
    )


def test_weights_that_are_noted_are_those_of_the_plain_pass():
    # finite differences are passes too; and what this library detaches hides nothing
    expected = score_heads(build("bert"), [batch(3)], "importance-entropy")["self"]
    found = score_heads(hiding("straight"), [batch(3)], "importance-entropy")["self"]
    torch.testing.assert_close(found, expected)
    watch = derivatives.Watch()
    model = build("bert")
    with recorded_weights(model, find_heads(model)), watch:
        model(**batch(3))
    assert watch.seen == ""


class Unhashable:
    __hash__ = None

    def __call__(self, outputs, batch):
        return nn.functional.cross_entropy(outputs.logits, batch["labels"], reduction="none")


def test_a_loss_that_cannot_be_remembered_is_held_too():
    expected = head_importance(build("bert"), [batch(3)])["self"]
    found = head_importance(build("bert"), [batch(3)], loss=Unhashable())["self"]
    torch.testing.assert_close(found, expected)
    with pytest.raises(ValueError, match="is not the derivative"):
        head_importance(hiding("detach"), [batch(3)], loss=Unhashable())


@pytest.mark.parametrize("way", ["detach", "straight"])
@pytest.mark.parametrize("auto", [False, True])
def test_a_precision_that_cannot_tell_says_nothing(way, auto):
    model = hiding(way).float() if auto else hiding(way).bfloat16()
    with torch.autocast("cpu", torch.bfloat16, enabled=auto):
        assert head_importance(model, [batch(3)])["self"].isfinite().all()
