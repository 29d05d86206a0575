"""Eq. 2 for every kind of head, or a refusal: gradients that are missing, examples that interact."""

import pytest
import torch
import transformers as t
from tiny import SHAPE, WIDE, batch, batch_for, build

from headprune_lib import find_heads, full_mask, head_importance, score_heads

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
    expected = full_mask(model)["self"].double()
    for block in find_heads(model):
        weight = block.part(model, "output").weight.data
        for head in range(block.n_heads):
            columns = slice(head * block.width, (head + 1) * block.width)
            before, losses = weight[:, columns].clone(), []
            for sign in (1, -1):
                weight[:, columns] = before * (1 + sign * step)
                losses.append(transformers_losses(model, inputs))
            weight[:, columns] = before
            expected[block.layer, head] = ((losses[0] - losses[1]) / (2 * step)).abs().mean()
    for size in (1, 2, 4):
        parts = [{k: v[i : i + size] for k, v in inputs.items()} for i in range(0, 4, size)]
        found = head_importance(model, parts, normalize=None)["self"]
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
        head_importance(model_of(name, **config), [inputs])


def probabilities(outputs, _batch):
    return -outputs.logits.log_softmax(-1)[:, 0]


@pytest.mark.parametrize("by", ["importance", "greedy", "gates"])
@pytest.mark.parametrize(
    "reduce", [torch.mean, lambda losses: losses.mean().view(1), lambda losses: losses[:2]]
)
def test_a_loss_that_is_not_one_number_an_example_is_refused(reduce, by):
    with pytest.raises(ValueError, match=r"the loss has shape .*expected one number an example"):
        score_heads(build(), [batch(5)], by, loss=lambda *given: reduce(probabilities(*given)))


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
        score_heads(build(), [batch(5)], by=by, loss=loss)


def broken_at(model, layer):
    model.bert.encoder.layer[layer].register_forward_hook(lambda _m, _i, made: made.detach())
    return model


@pytest.mark.parametrize("by", ["importance", "fisher", "second-order", "gates"])
def test_a_graph_that_is_broken_on_the_way_is_refused(by):
    paths = r"bert\.encoder\.layer\.0\.attention, bert\.encoder\.layer\.1\.attention, but no grad"
    with pytest.raises(ValueError, match=f"depends on the heads of {paths}"):
        score_heads(broken_at(build(), 1), [batch_for("bert")], by=by)


def test_a_loss_without_any_gradient_is_refused():
    with pytest.raises(ValueError, match="the loss has no gradient in any head"):
        head_importance(broken_at(build(), 2).requires_grad_(False), [batch_for("bert")])
    with pytest.raises(ValueError, match="the loss has no gradient in any head"):
        head_importance(
            build(), [batch_for("bert")], loss=lambda o, _b: o.logits[:, 0].detach().clone()
        )
