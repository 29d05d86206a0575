"""Derivatives for every kind of head, or a refusal: missing, wrong, or of examples that interact."""

import copy
import pickle
import warnings

import pytest
import torch
import transformers as t
from tiny import SHAPE, WIDE, batch, batch_for, build
from torch import nn
from torch.utils.checkpoint import checkpoint

import headprune_lib as hp

CONFIG = {**SHAPE, **WIDE}


def model_of(name, **config):
    torch.manual_seed(0)
    model = getattr(t, name)(t.BertConfig(**{**CONFIG, **config}))
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return model.double().eval()


def choices():
    inputs = batch(12, labels=False)
    return {k: v.view(4, 3, -1) for k, v in inputs.items()} | {"labels": torch.tensor([0, 2, 1, 1])}


def with_labels(labels):
    return lambda: batch(4, labels=False) | {"labels": labels}


def span():
    # the third answer was cut off with the end of its text
    return batch(4, labels=False) | {
        "start_positions": torch.tensor([1, 3, 50, 0]),
        "end_positions": torch.tensor([2, 3, 50, 8]),
    }


def tagged():
    labels = torch.randint(0, 3, (4, 9), generator=torch.Generator().manual_seed(3))
    return batch(4, labels=False) | {"labels": labels.masked_fill(labels == 2, -100)}


TASKS = [
    ("BertForMultipleChoice", {}, choices),
    (
        "BertForSequenceClassification",
        {"problem_type": "multi_label_classification"},
        with_labels(torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]]).double()),
    ),
    ("BertForSequenceClassification", {"num_labels": 1}, with_labels(torch.randn(4))),
    (
        "BertForSequenceClassification",
        {"problem_type": "regression"},
        with_labels(torch.randn(4, 3)),
    ),
    ("BertForQuestionAnswering", {"num_labels": 2}, span),
    ("BertForTokenClassification", {}, tagged),
    ("BertForNextSentencePrediction", {}, with_labels(torch.tensor([0, 1, 1, 0]))),
    ("BertForMaskedLM", {}, tagged),
]


def transformers_losses(model, inputs):
    """What transformers itself computes of each example; of positions their sum, not their mean."""
    found = []
    for i in range(4):
        row = {name: value[i : i + 1] for name, value in inputs.items()}
        labels = row.get("labels")
        positions = labels is not None and labels.ndim == 2 and not labels.is_floating_point()
        with torch.no_grad():
            # of an answer that is cut off transformers gives the mean of nothing
            loss = model(**row).loss.nan_to_num()
        found.append(loss * ((labels != -100).sum() if positions else 1))
    return torch.stack(found)


@pytest.mark.parametrize(("name", "config", "make"), TASKS)
def test_importance_is_the_derivative_of_transformers_own_loss(name, config, make):
    """By differences in the columns of each head's output projection, whatever the batches."""
    model, inputs, step = model_of(name, **config), make(), 1e-5
    expected = hp.ones_mask(model)["self"].double()
    for block in hp.find_heads(model):
        weight = block.part(model, "output").weight.data
        for head in range(block.n_heads):
            columns = slice(head * block.head_dim, (head + 1) * block.head_dim)
            before, losses = weight[:, columns].clone(), []
            for sign in (1, -1):
                weight[:, columns] = before * (1 + sign * step)
                losses.append(transformers_losses(model, inputs))
            weight[:, columns] = before
            expected[block.layer, head] = ((losses[0] - losses[1]) / (2 * step)).abs().mean()
    for size in (1, 2, 4):
        parts = [{k: v[i : i + size] for k, v in inputs.items()} for i in range(0, 4, size)]
        found = hp.head_importance(model, parts, normalize=None)["self"]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


CLASSIFIER, SEVERAL = "BertForSequenceClassification", "multi_label_classification"


@pytest.mark.parametrize(
    ("name", "config", "inputs", "message"),
    [
        ("BertModel", {}, batch(), "no logits: its usual loss is not known here.*loss="),
        (CLASSIFIER, {}, with_labels(torch.rand(4, 3))(), "set model.config.problem_type"),
        (CLASSIFIER, {"problem_type": SEVERAL}, batch(4), "one number in 0 to 1 for each example"),
        ("BertForTokenClassification", {}, batch(4), r"shape \(4,\).*logits of shape \(4, 9, 3\)"),
    ],
)
def test_a_model_whose_loss_is_not_known_or_whose_labels_do_not_fit(name, config, inputs, message):
    with pytest.raises(ValueError, match=message):
        hp.head_importance(model_of(name, **config), [inputs])


def probabilities(outputs, _batch):
    return -outputs.logits.log_softmax(-1)[:, 0]


@pytest.mark.parametrize("by", ["importance", "greedy", "gates"])
@pytest.mark.parametrize(
    "reduce", [torch.mean, lambda losses: losses.mean().view(1), lambda losses: losses[:2]]
)
def test_a_loss_that_is_not_one_number_an_example_is_refused(reduce, by):
    with pytest.raises(ValueError, match=r"the loss has shape .*expected one number an example"):
        hp.score_heads(build(), [batch(5)], by, loss=lambda *given: reduce(probabilities(*given)))


def in_batch_negatives(outputs, _batch):
    similar = outputs.logits @ outputs.logits.T
    return -similar.log_softmax(-1).diagonal()


@pytest.mark.parametrize(
    "loss",
    [
        in_batch_negatives,
        lambda outputs, batch: probabilities(outputs, batch).mean().expand(len(outputs.logits)),
        lambda outputs, batch: probabilities(outputs, batch) / len(outputs.logits),
    ],
)
@pytest.mark.parametrize("by", ["importance", "fisher", "importance-integrated"])
def test_examples_that_interact_are_refused(loss, by):
    with pytest.raises(ValueError, match="examples interact"):
        hp.score_heads(build(), [batch(5)], by=by, loss=loss)


def broken_at(model, layer):
    model.bert.encoder.layer[layer].register_forward_hook(lambda _m, _i, made: made.detach())
    return model


@pytest.mark.parametrize("by", ["importance", "fisher", "second-order", "gates"])
def test_a_graph_that_is_broken_on_the_way_is_refused(by):
    paths = r"bert\.encoder\.layer\.0\.attention, bert\.encoder\.layer\.1\.attention, but no grad"
    with pytest.raises(ValueError, match=f"depends on the heads of {paths}"):
        hp.score_heads(broken_at(build(), 1), [batch_for("bert")], by=by)


def test_a_loss_without_any_gradient_is_refused():
    with pytest.raises(ValueError, match="the loss has no gradient in any head"):
        hp.head_importance(broken_at(build(), 2).requires_grad_(False), [batch_for("bert")])
    with pytest.raises(ValueError, match="the loss has no gradient in any head"):
        hp.head_importance(
            build(), [batch_for("bert")], loss=lambda o, _b: o.logits[:, 0].detach().clone()
        )


class _Halved(torch.autograd.Function):
    @staticmethod
    def forward(_context, x):
        return x

    @staticmethod
    def backward(_context, gradient):
        return gradient / 2


def under_no_grad(x):
    with torch.no_grad():
        other = x * 1
    return (x + other) / 2


def logged(x):
    x.detach().abs().mean()  # what the loss does not use
    return x


# What a layer's output goes through: half of the gradient is lost, or all of it is there.
HALF = {
    "detach": lambda x: (x + x.detach()) / 2,
    "data": lambda x: (x + x.data) / 2,
    "no_grad": under_no_grad,
    "own backward": _Halved.apply,
}
WHOLE = {
    "logged": logged,
    "checkpoint": lambda x: checkpoint(lambda y: y * 1, x, use_reentrant=False),
    "straight": lambda x: x + x.detach() - x.detach(),
    "": lambda x: x,
}


class Through(nn.Module):
    """In a layer's place: the layer, and a function of its output."""

    def __init__(self, layer, change):
        super().__init__()
        self.layer, self.change = layer, change

    def forward(self, *args, **kwargs):
        return self.change(self.layer(*args, **kwargs))


def hiding(way):
    model = build("bert")
    layers = model.bert.encoder.layer
    layers[0] = Through(layers[0], (HALF | WHOLE)[way])
    return model


@pytest.mark.parametrize("by", ["importance", "fisher", "gates", "second-order"])
@pytest.mark.parametrize("way", HALF)
def test_half_a_gradient_is_refused_with_what_was_seen(way, by):
    seen = "_HalvedBackward" if way == "own backward" else r"test_gradients.py:\d+ goes on without"
    with pytest.raises(ValueError, match=f"BertFor.*is not the derivative of the loss.*{seen}"):
        hp.score_heads(hiding(way), [batch(3)], by)


def test_a_small_part_is_held_too_where_the_loss_does_not_depend_on_another():
    model = build("bert")
    _, small, without = (layer.attention.output.dense for layer in model.bert.encoder.layer)
    small.weight.data *= 1e-3
    without.weight.data.zero_()  # no head of the last layer matters
    hp.score_heads(model, [batch(3)], "importance")
    small.register_forward_hook(lambda _module, _given, made: (made + made.detach()) / 2)
    with pytest.raises(ValueError, match=r"test_gradients.py:\d+ goes on without a gradient"):
        hp.score_heads(model, [batch(3)], "importance")  # its code is another now


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
        return hp.head_importance(model, [batch(n)])["self"]


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
    assert hp.head_importance(right, [batch(5)])["self"].isfinite().all()
    with pytest.raises(ValueError, match="is not the derivative"):
        hp.head_importance(wrong, [batch(5)])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_loss_that_jumps_nearby_has_a_derivative_where_it_stands(dtype):
    def jumping(outputs, inputs):
        losses = nn.functional.cross_entropy(outputs.logits, inputs["labels"], reduction="none")
        return losses + (losses.detach() * 2**12).round() / 2**10

    right, wrong = (own_backward(lambda _, by=by: by, dtype) for by in (1, 1.01))
    assert hp.head_importance(right, [batch(3)], loss=jumping)["self"].isfinite().all()
    with pytest.raises(ValueError, match="is not the derivative"):
        hp.head_importance(wrong, [batch(3)], loss=jumping)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_where_nothing_can_tell_it_is_said(dtype):
    model = own_backward(lambda _: 1, dtype, dtype)
    with pytest.warns(UserWarning, match=f"BertFor.*test_gradients.py.*{BLIND}"):
        hp.head_importance(model, [batch(3)])
    importance(model)  # once


def test_a_model_that_is_seen_to_be_right_is_left_as_it_was_and_no_copy_is_asked_again():
    passes, counts = [], []
    for model in (build("bert"), own_backward(lambda _: 1, torch.float32)):
        model.register_forward_hook(lambda *_: passes.append(1))
        before = copy.deepcopy(model.state_dict())
        for of_a_copy in (False, False, True):
            passes.clear()
            importance(copy.deepcopy(model) if of_a_copy else model)
            counts.append(len(passes))
        for name, value in model.state_dict().items():
            assert torch.equal(value, before[name]) and value.dtype == before[name].dtype
    plain, *again, first, second, copied = counts
    assert again == [plain, plain] == [second, copied] and plain < first


def test_a_scored_model_can_be_pickled():
    model = build("bert")
    hp.head_importance(model, [batch(3)], loss=lambda outputs, _batch: outputs.logits[:, 0])
    assert pickle.loads(pickle.dumps(model)).state_dict().keys() == model.state_dict().keys()


@pytest.mark.parametrize("way", WHOLE)
def test_what_is_seen_and_does_no_harm_is_let_through(way):
    expected = importance(build("bert"))
    torch.testing.assert_close(importance(hiding(way)), expected, rtol=1e-6, atol=1e-9)


def test_weights_that_are_noted_are_those_of_the_plain_pass():
    # finite differences are passes too; and what this library detaches hides nothing
    expected = hp.score_heads(build("bert"), [batch(3)], "importance-entropy")["self"]
    found = hp.score_heads(hiding("straight"), [batch(3)], "importance-entropy")["self"]
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
