"""Criteria by derivatives, against real gates and differences of each example, however batched."""

import pytest
import torch
import transformers as t
from census import tiny as census
from gates import ROUNDING, gate_derivatives
from tiny import batch_for, build, logits_of, parts_of

from headprune_lib import head_importance, score_heads
from headprune_lib.criteria.gradient import importance_integrated, importance_signed, second_order
from headprune_lib.masking import ones_mask


def accumulated(parts):
    """The old script's loop: ``backward`` adds to a gradient that is never set back to zero."""
    gradient, total = 0, 0
    for part in parts:
        gradient = gradient + part.mean(0)
        total = total + gradient.abs()
    return total / len(parts)


# criterion -> the score from the derivatives (example, layer, head) of each batch
PLAIN = {
    "importance": lambda parts: torch.cat(parts).abs().mean(0),
    "importance-signed": lambda parts: -torch.cat(parts).mean(0),
    "importance-batch": lambda parts: sum(part.mean(0).abs() for part in parts) / len(parts),
    "importance-bertology": accumulated,
    "fisher": lambda parts: sum(part.mean(0) ** 2 for part in parts) / len(parts),
}


@pytest.mark.parametrize("cuts", [[], [3], [1, 2, 5], [1, 2, 3, 4, 5]])
@pytest.mark.parametrize("by", PLAIN)
def test_it_is_made_of_each_examples_derivatives(model, split, derivatives, by, cuts):
    found = score_heads(model, split(cuts), by, normalize=None)["self"]
    expected = PLAIN[by](derivatives.tensor_split(cuts))
    torch.testing.assert_close(found, expected, **ROUNDING)
    unit = expected / expected.square().sum(1, keepdim=True).sqrt()  # within a layer
    found = score_heads(model, split(cuts), by)["self"]  # with the criterion's usual normalisation
    usual = expected if by in ("importance-signed", "fisher") else unit
    torch.testing.assert_close(found, usual, **ROUNDING)
    if by != "importance-signed":
        variant = {"importance": "example"}.get(by, by.removeprefix("importance-"))
        found = head_importance(model, split(cuts), variant=variant)["self"]
        torch.testing.assert_close(found, unit, **ROUNDING)


@pytest.mark.parametrize("by", ["importance", "importance-integrated", "importance-times-entropy"])
def test_examples_that_a_model_takes_windowed_are_scored_one_by_one(by):
    torch.manual_seed(0)
    model = t.SwinForImageClassification(census.tiny_config("swin")).eval()
    inputs = {"pixel_values": torch.randn(3, 3, 64, 64), "labels": torch.tensor([1, 0, 1])}
    found, expected = (
        score_heads(model, batches, by, normalize=None)["self"]
        for batches in ([inputs], parts_of(inputs, 1))
    )
    torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("name", ["bert", "bart"])
def test_by_token_it_is_a_mean_over_the_tokens_of_the_side_that_attends(name):
    model, batches = build(name), [batch_for(name, 3), batch_for(name, 2, seed=3)]
    total, tokens = {}, {}
    for row in [row for inputs in batches for row in parts_of(inputs, 1)]:
        source, target = int(row["attention_mask"].sum()), int((row["labels"] != -100).sum())
        for block, each in gate_derivatives(model, row).items():
            place, own = (block.kind, block.layer), block.kind in ("self", "enc-enc")
            total[place] = total.get(place, 0) + each.abs().sum(0)
            tokens[place] = tokens.get(place, 0) + (source if own else target)
    found = head_importance(model, batches, variant="token", normalize=None)
    for (kind, layer), values in total.items():
        torch.testing.assert_close(found[kind][layer], values / tokens[kind, layer], **ROUNDING)
    assert name == "bert" or len(set(tokens.values())) == 2


def losses_at(model, batch, head, gate, others=1.0):
    """Losses, (example,) in float64, with a head's gate at ``gate`` and the rest at ``others``."""
    mask = {kind: torch.full_like(values, others) for kind, values in ones_mask(model).items()}
    mask[head[0]][head[1:]] = gate
    logits, labels = logits_of(model, batch, mask).double(), batch["labels"]
    losses = torch.nn.functional.cross_entropy(
        logits.movedim(-1, 1), labels, reduction="none", ignore_index=-100
    )
    return losses.flatten(1).sum(1) if labels.ndim > 1 else losses


def test_it_is_the_mean_of_absolute_integrals(model, examples, split):
    steps, small, head = 3, 2.0**-10, ("self", 1, 2)
    integrals = 0
    for place in ((i + 0.5) / steps for i in range(steps)):
        ends = (losses_at(model, examples, head, place + end, place) for end in (small, -small))
        integrals = integrals + (next(ends) - next(ends)) / (2 * small) / steps
    one, several = (importance_integrated(model, split(cuts), steps=steps) for cuts in ([], [1, 4]))
    expected = integrals.abs().mean()
    torch.testing.assert_close(one["self"][1, 2], expected, rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(one["self"], several["self"], **ROUNDING)


def test_it_is_the_derivative_of_the_norm_and_needs_no_labels(model, split, examples):
    step, ends = 2.0**-10, []
    for gate in (1 + step, 1 - step):
        mask = ones_mask(model)
        mask["self"][1, 2] = gate
        ends.append(logits_of(model, examples, mask).norm(dim=1).double())
    expected = ((ends[0] - ends[1]) / (2 * step)).abs().mean()
    unlabelled = {name: value for name, value in examples.items() if name != "labels"}
    for batches in (split([]), split([2, 3]), [unlabelled]):
        found = score_heads(model, batches, "logits-norm")["self"]
        torch.testing.assert_close(found[1, 2], expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    ("name", "kernel", "head"),
    [
        ("bert", "eager", ("self", 1, 2)),
        ("t5", "eager", ("dec-dec", 1, 0)),
        # a kernel whose derivative has none of its own
        ("bart", "sdpa", ("enc-dec", 0, 3)),
        ("bert", "sdpa", ("self", 2, 0)),
    ],
)
def test_it_is_the_expansion_of_the_loss(name, kernel, head):
    model, batch, step = build(name, kernel), batch_for(name), 2.0**-7
    up, at, down = (losses_at(model, batch, head, gate).mean() for gate in (1 + step, 1, 1 - step))
    expected = -(up - down) / (2 * step) + (up - 2 * at + down) / step**2 / 2
    found = second_order(model, [batch], probes=None)[head[0]][head[1:]]
    torch.testing.assert_close(found, expected, rtol=5e-3, atol=1e-5)


def test_random_signs_estimate_the_diagonal(model, examples):
    exact = second_order(model, [examples], probes=None)["self"]
    first = importance_signed(model, [examples])["self"]
    near, far = (
        (second_order(model, [examples], probes=probes, seed=1)["self"] - exact).abs().mean()
        for probes in (100, 2)
    )
    assert near < 0.4 * far and near < 0.4 * (exact - first).abs().mean()
