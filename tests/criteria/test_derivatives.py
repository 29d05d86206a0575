"""Code that may give another gradient is seen, and its gradient compared with differences."""

import copy
import warnings

import pytest
import torch
from tiny import batch, build
from torch import nn
from torch.utils.checkpoint import checkpoint

from headprune_lib import head_importance, score_heads


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


class Linear(nn.Linear):
    """A linear layer with a backward pass of its own.

    ``spoil`` changes the gradient that it gives. It runs in the precision ``only``, if one is
    named, so that no copy in another one can be asked.
    """

    def forward(self, x):
        return _Linear.apply(x, self.weight, self.bias, self.spoil, self.only)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(context, x, weight, bias, spoil, only):
        if only not in (None, x.dtype):
            raise TypeError(f"no kernel for {x.dtype}")
        context.weight, context.spoil = weight, spoil
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(context, gradient):
        # summed in another order than PyTorch's, as other kernels do
        found = gradient.flip(-1) @ context.weight.flip(0)
        return found * context.spoil(found), None, None, None, None


def of_head(number, factor):
    """One factor a column: of a head of four columns, and 1 for all others."""

    def spoil(gradient):
        factors = torch.ones_like(gradient[0, 0])
        factors[4 * number : 4 * number + 4] = factor
        return factors

    return spoil


def of_example(factor):
    def spoil(gradient):
        return torch.where(torch.arange(len(gradient)) == 0, factor, 1.0)[:, None, None].to(
            gradient
        )

    return spoil


SPOILED = {
    "scaled by 1.005": lambda _: 1.005,
    "no head 0": of_head(0, 0),
    "another sign of head 1": of_head(1, -1),
}
SUBTLE = {
    "head 2 scaled by 1.005": of_head(2, 1.005),
    "example 0 scaled by 1.005": of_example(1.005),
}
BLIND = "finite differences, exact to .*% of it, cannot tell"


def own_backward(spoil, dtype, only=None, layer=0, seed=0):
    model = build("bert", seed=seed)
    linear = model.bert.encoder.layer[layer].attention.output.dense
    linear.__class__, linear.spoil, linear.only = Linear, spoil, only
    return model.to(dtype)


def importance(model, n=3):
    """Without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return head_importance(model, [batch(n)])["self"]


@pytest.mark.parametrize(
    ("dtype", "only", "layer"),
    [
        (torch.float64, None, 0),
        (torch.float32, None, 1),
        (torch.float32, torch.float32, 2),
        (torch.bfloat16, None, 0),
        (torch.float16, None, 2),
    ],
)
def test_a_right_gradient_of_unknown_code_is_believed_and_a_wrong_one_is_not(dtype, only, layer):
    assert importance(own_backward(lambda _: 1, dtype, only, layer)).isfinite().all()
    for spoil in (SPOILED if only else SPOILED | SUBTLE).values():
        with pytest.raises(ValueError, match="is not the derivative of the loss"):
            importance(own_backward(spoil, dtype, only, layer))


@pytest.mark.parametrize("seed", [0, 11, 30])
@pytest.mark.filterwarnings(f"ignore:.*{BLIND}")
def test_kinks_between_the_differences_refuse_no_right_gradient(seed):
    right, wrong = (
        own_backward(lambda _, by=by: by, torch.float32, torch.float32, seed=seed)
        for by in (1, 1.5)
    )
    for model in (right, wrong):
        for layer in model.bert.encoder.layer:
            layer.intermediate.intermediate_act_fn = nn.ReLU()
    assert head_importance(right, [batch(5)])["self"].isfinite().all()
    with pytest.raises(ValueError, match="is not the derivative"):
        head_importance(wrong, [batch(5)])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_loss_that_jumps_nearby_has_a_derivative_where_it_stands(dtype):
    def jumping(outputs, inputs):
        losses = nn.functional.cross_entropy(outputs.logits, inputs["labels"], reduction="none")
        return losses + (losses.detach() * 2**12).round() / 2**10

    right, wrong = (own_backward(lambda _, by=by: by, dtype) for by in (1, 1.01))
    assert head_importance(right, [batch(3)], loss=jumping)["self"].isfinite().all()
    with pytest.raises(ValueError, match="is not the derivative"):
        head_importance(wrong, [batch(3)], loss=jumping)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_where_nothing_can_tell_it_is_said(dtype):
    model = own_backward(lambda _: 1, dtype, dtype)
    with pytest.warns(UserWarning, match=f"BertFor.*test_derivatives.py.*{BLIND}"):
        head_importance(model, [batch(3)])
    importance(model)  # once


def test_a_model_that_is_seen_to_be_right_is_left_as_it_was_and_not_asked_again():
    passes, counts = [], []
    for model in (build("bert"), own_backward(lambda _: 1, torch.float32)):
        model.register_forward_hook(lambda *_: passes.append(1))
        before = copy.deepcopy(model.state_dict())
        for _ in range(2):
            passes.clear()
            importance(model)
            counts.append(len(passes))
        for name, value in model.state_dict().items():
            assert torch.equal(value, before[name]) and value.dtype == before[name].dtype
    plain, again, first, second = counts
    assert plain == again == second < first


@pytest.mark.parametrize("way", ["logged", "checkpoint", "straight", ""])
def test_what_is_seen_and_does_no_harm_is_let_through(way):
    expected = importance(build("bert"))
    torch.testing.assert_close(importance(hiding(way)), expected, rtol=1e-6, atol=1e-9)


def test_weights_that_are_noted_are_those_of_the_plain_pass():
    # finite differences are passes too; and what this library detaches hides nothing
    expected = score_heads(build("bert"), [batch(3)], "importance-entropy")["self"]
    found = score_heads(hiding("straight"), [batch(3)], "importance-entropy")["self"]
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("auto", [False, True])
def test_a_coarse_precision_hides_nothing(auto):
    def scored(way):
        model = hiding(way).float() if auto else hiding(way).bfloat16()
        with torch.autocast("cpu", torch.bfloat16, enabled=auto):
            return importance(model)

    assert scored("straight").isfinite().all()
    with pytest.raises(ValueError, match="is not the derivative"):
        scored("detach")
