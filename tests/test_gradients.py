"""Derivatives for every task head, or a refusal: missing, wrong, or of examples that interact."""

import copy
import pickle
import warnings

import pytest
import torch
import transformers as t
from gates import gate_derivatives
from tiny import SHAPE, WIDE, batch, build, drawn, parts_of, unchanged
from torch import nn
from torch.utils.checkpoint import checkpoint

import headprune_lib as hp

CLASSIFIER, SEVERAL = "BertForSequenceClassification", "multi_label_classification"
INPUTS = batch(4, labels=False)


def model_of(name, **config):
    torch.manual_seed(0)
    return drawn(getattr(t, name)(t.BertConfig(**{**SHAPE, **WIDE, **config}))).double()


def labelled(labels):
    return {**INPUTS, "labels": torch.as_tensor(labels)}


CHOICES = {k: v.view(4, 3, -1) for k, v in batch(12, labels=False).items()}
TAGS = torch.randint(0, 3, (4, 9), generator=torch.Generator().manual_seed(3))
TAGGED = labelled(TAGS.masked_fill(TAGS == 2, -100))
YES_OR_NO = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]]).double()
SPAN = {  # the third answer was cut off with the end of its text
    **INPUTS, "start_positions": torch.tensor([1, 3, 50, 0]),
    "end_positions": torch.tensor([2, 3, 50, 8]),
}  # fmt: skip
TASKS = [
    ("BertForMultipleChoice", {}, {**CHOICES, "labels": torch.tensor([0, 2, 1, 1])}),
    (CLASSIFIER, {"problem_type": SEVERAL}, labelled(YES_OR_NO)),
    (CLASSIFIER, {"num_labels": 1}, labelled(torch.randn(4))),
    (CLASSIFIER, {"problem_type": "regression"}, labelled(torch.randn(4, 3))),
    ("BertForQuestionAnswering", {"num_labels": 2}, SPAN),
    ("BertForTokenClassification", {}, TAGGED),
    ("BertForNextSentencePrediction", {}, labelled([0, 1, 1, 0])),
    ("BertForMaskedLM", {}, TAGGED),
]


def transformers_loss(model, row):
    """The loss of an example by transformers itself; over positions the sum, not the mean."""
    positions = (
        row["labels"] if "labels" in row and row["labels"].shape == (1, 9) else torch.ones(1)
    )
    return model(**row).loss * (positions != -100).sum()


@pytest.mark.parametrize(("name", "config", "inputs"), TASKS)
def test_importance_is_the_derivative_of_transformers_own_loss(name, config, inputs):
    """Compared with real gates, however the examples are batched."""
    model, expected = model_of(name, **config), torch.zeros(3, 4, dtype=torch.float64)
    for row in parts_of(inputs, 1):
        for block, each in gate_derivatives(model, row, transformers_loss).items():
            # for an answer that is cut off transformers gives the mean of nothing
            expected[block.layer] += each.sum(0).nan_to_num().abs() / 4
    for size in (1, 2, 4):
        found = hp.head_importance(model, parts_of(inputs, size), normalize=None)["self"]
        torch.testing.assert_close(found, expected)


def first_class(change):
    return lambda outputs, _batch: change(-outputs.logits.log_softmax(-1)[:, 0])


def in_batch_negatives(outputs, _batch):
    return -(outputs.logits @ outputs.logits.T).log_softmax(-1).diagonal()


def broken_at(layer):
    model = build()
    model.bert.encoder.layer[layer].register_forward_hook(lambda _m, _i, made: made.detach())
    return model


def one(loss, message, *by):
    return [(each, build, batch(5), loss, message) for each in by or ("importance",)]


ALL = "importance fisher gates second-order"
ONE_EACH = r"the loss has shape .*expected \(batch,\)\. Give one number per"
NO_WAY = r"heads of bert\S*\.0\.attention, bert\S*\.1\.attention, but no grad"
SEVERAL_SHAPES = r"shape \(4,\).*logits of shape \(4, 9, 3\)"
# criterion, model, batch, loss, and the message
REFUSED = [
    ("importance", lambda: model_of("BertModel"), batch(), None, "its usual loss is not known"),
    ("importance", build, labelled(torch.rand(4, 3)), None, "Set model.config.problem_type"),
    ("importance", lambda: model_of(CLASSIFIER, problem_type=SEVERAL), batch(4), None, "number from 0 to 1"),
    ("importance", lambda: model_of("BertForTokenClassification"), batch(4), None, SEVERAL_SHAPES),
    *one(first_class(torch.mean), ONE_EACH, "importance", "greedy", "gates"),
    *one(first_class(lambda x: x.mean().view(1)), ONE_EACH),
    *one(first_class(lambda x: x[:2]), ONE_EACH),
    *one(in_batch_negatives, "examples interact", "importance", "fisher", "importance-integrated"),
    *one(first_class(lambda x: x.mean().expand(len(x))), "examples interact"),
    *one(first_class(lambda x: x / len(x)), "examples interact"),
    *((by, lambda: broken_at(1), batch(5), None, NO_WAY) for by in ALL.split()),
    ("importance", lambda: broken_at(2).requires_grad_(False), batch(5), None, "no gradient in any"),
    *one(first_class(lambda x: x.detach().clone()), "no gradient in any"),
]  # fmt: skip


@pytest.mark.parametrize(("by", "make", "inputs", "loss", "message"), REFUSED)
def test_losses_without_a_derivative_of_each_example_are_refused(by, make, inputs, loss, message):
    with pytest.raises(ValueError, match=message):
        hp.score_heads(make(), [inputs], by, loss=loss)


class _Halved(torch.autograd.Function):
    @staticmethod
    def forward(_context, x):
        return x

    @staticmethod
    def backward(_context, gradient):
        return gradient / 2


def logged(x):
    x.detach().abs().mean()  # what the loss does not use
    return x


# Functions of a layer's output that lose half of the gradient, or none of it.
HALF = {
    "detach": lambda x: (x + x.detach()) / 2,
    "data": lambda x: (x + x.data) / 2,
    "no_grad": lambda x: (x + torch.no_grad()(lambda y: y * 1)(x)) / 2,
    "own backward": _Halved.apply,
}
WHOLE = {
    "logged": logged,
    "checkpoint": lambda x: checkpoint(lambda y: y * 1, x, use_reentrant=False),
    "straight": lambda x: x + x.detach() - x.detach(),
    "": lambda x: x,
}


class Through(nn.Module):
    """A replacement for a layer: the layer, then a function of its output."""

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


SEEN = r"test_gradients.py:\d+ goes on without"


@pytest.mark.parametrize(
    ("way", "by"), [*(("detach", by) for by in ALL.split()), *((way, "importance") for way in HALF)]
)
def test_half_a_gradient_is_refused_with_what_was_seen(way, by):
    seen = "_HalvedBackward" if way == "own backward" else SEEN
    with pytest.raises(ValueError, match=f"BertFor.*is not the derivative of the loss.*{seen}"):
        hp.score_heads(hiding(way), [batch(3)], by)


def test_a_small_part_is_held_too_where_the_loss_does_not_depend_on_another():
    model = build("bert")
    _, small, without = (layer.attention.output.dense for layer in model.bert.encoder.layer)
    small.weight.data *= 1e-3
    without.weight.data.zero_()  # no head of the last layer matters
    assert not hp.score_heads(model, [batch(3)], "importance")["self"][2].any()
    small.register_forward_hook(lambda _module, _given, made: (made + made.detach()) / 2)
    with pytest.raises(ValueError, match=SEEN):
        hp.score_heads(model, [batch(3)], "importance")  # its code has changed


class Linear(nn.Linear):
    """A linear layer with a backward pass of its own.

    ``spoil`` changes the gradient that it returns. It runs only in the precision ``only``, if one
    is named, so that no copy in another precision can be tried.
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
    """One factor per column: ``factor`` for the four columns of a head, and 1 for all others."""
    factors = torch.ones(16)
    factors[4 * number : 4 * number + 4] = factor
    return factors.to


def of_the_first_example(gradient):
    return torch.tensor([1.005, 1, 1])[:, None, None].to(gradient)


RIGHT = 1.0
SPOILED = [lambda _: 1.005, of_head(0, 0), of_head(1, -1)]
SUBTLE = [of_head(2, 1.005), of_the_first_example]
BLIND = "finite differences, exact to .*% of it, cannot tell"


def own_backward(spoil, dtype, only=None, layer=0, seed=0, activation=None):
    model = build("bert", seed=seed)
    linear = model.bert.encoder.layer[layer].attention.output.dense
    spoil = spoil if callable(spoil) else lambda _, by=spoil: by
    linear.__class__, linear.spoil, linear.only = Linear, spoil, only
    for each in model.bert.encoder.layer if activation else ():
        each.intermediate.intermediate_act_fn = activation
    return model.to(dtype)


def importance(model, **options):
    """Importance, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return hp.head_importance(model, [batch(3)], **options)["self"]


def jumping(outputs, inputs):
    """A loss that jumps nearby, and has a derivative where it stands."""
    losses = nn.functional.cross_entropy(outputs.logits, inputs["labels"], reduction="none")
    return losses + (losses.detach() * 2**12).round() / 2**10


DOUBLE, SINGLE, SHORT, HALF_PRECISION = torch.float64, torch.float32, torch.bfloat16, torch.float16
OTHERWISE = [
    (DOUBLE, {}, SPOILED + SUBTLE, None),
    (SINGLE, {"layer": 1}, SPOILED + SUBTLE, None),
    (SINGLE, {"layer": 2, "only": SINGLE}, SPOILED, None),
    (SHORT, {}, SPOILED + SUBTLE, None),
    (HALF_PRECISION, {"layer": 2}, SPOILED + SUBTLE, None),
    *((dtype, {}, [1.01], jumping) for dtype in (DOUBLE, SINGLE)),
]


@pytest.mark.parametrize(("dtype", "more", "spoiled", "loss"), OTHERWISE)
def test_a_right_gradient_of_unknown_code_is_believed_and_a_wrong_one_is_not(
    dtype, more, spoiled, loss
):
    assert importance(own_backward(RIGHT, dtype, **more), loss=loss).isfinite().all()
    for spoil in spoiled:
        with pytest.raises(ValueError, match="is not the derivative of the loss"):
            importance(own_backward(spoil, dtype, **more), loss=loss)


@pytest.mark.parametrize("seed", [0, 11, 30])
@pytest.mark.filterwarnings(f"ignore:.*{BLIND}")
def test_kinks_between_the_differences_refuse_no_right_gradient(seed):
    right, wrong = (
        own_backward(by, SINGLE, SINGLE, seed=seed, activation=nn.ReLU()) for by in (RIGHT, 1.5)
    )
    assert hp.head_importance(right, [batch(5)])["self"].isfinite().all()
    with pytest.raises(ValueError, match="is not the derivative"):
        hp.head_importance(wrong, [batch(5)])


@pytest.mark.parametrize("dtype", [SHORT, HALF_PRECISION])
def test_where_nothing_can_tell_it_is_said(dtype):
    model = own_backward(RIGHT, dtype, dtype)
    with pytest.warns(UserWarning, match=f"BertFor.*test_gradients.py.*{BLIND}"):
        hp.head_importance(model, [batch(3)])
    importance(model)  # warned only once


def test_a_model_that_is_seen_to_be_right_is_left_as_it_was_and_no_copy_is_asked_again():
    passes, counts = [], []
    for model in (build("bert"), own_backward(RIGHT, torch.float32)):
        model.register_forward_hook(lambda *_: passes.append(1))
        for copied in (lambda it: it, lambda it: it, copy.deepcopy):
            passes.clear()
            with unchanged(model):
                importance(copied(model))
            counts.append(len(passes))
    plain, *again, first, second, of_a_copy = counts
    assert again == [plain, plain] == [second, of_a_copy] and plain < first


def test_a_scored_model_can_be_pickled():
    model = build("bert")
    hp.head_importance(model, [batch(3)], loss=lambda outputs, _batch: outputs.logits[:, 0])
    assert pickle.loads(pickle.dumps(model)).state_dict().keys() == model.state_dict().keys()


# finite differences are passes too, but record no weights; what the library detaches does no harm
@pytest.mark.parametrize("by", ["importance", "second-order", "importance-entropy"])
@pytest.mark.parametrize("way", WHOLE)
def test_what_is_seen_and_does_no_harm_is_let_through(way, by):
    found, expected = (hp.score_heads(hiding(each), [batch(3)], by) for each in (way, ""))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("auto", [False, True])
def test_a_coarse_precision_hides_nothing(auto):
    def scored(way):
        model = hiding(way).float() if auto else hiding(way).bfloat16()
        with torch.autocast("cpu", torch.bfloat16, enabled=auto):
            return importance(model)

    assert scored("straight").isfinite().all()
    with pytest.raises(ValueError, match="is not the derivative"):
        scored("detach")
