"""Scores by first derivatives, against real gates, one example at a time, however batched."""

import pytest
import torch
from gates import ROUNDING, gate_derivatives, of_examples, rows_of
from tiny import batch_for, build

from headprune_lib import score_heads
from headprune_lib.criteria.gradient import example_importance, importance, importance_token


def accumulated(parts):
    """The old script's loop: ``backward`` adds to a gradient that nobody sets back to zero."""
    gradient, total = 0, 0
    for part in parts:
        gradient = gradient + part.mean(0)
        total = total + gradient.abs()
    return total / len(parts)


# criterion -> the score, of the derivatives (example, layer, head) of each batch
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
    torch.testing.assert_close(found, PLAIN[by](derivatives.tensor_split(cuts)), **ROUNDING)


@pytest.mark.parametrize("name", ["bart", "t5"])
def test_the_three_kinds_of_an_encoder_decoder(name):
    model, inputs = build(name), batch_for(name)
    expected = of_examples(model, [inputs])
    found, each = importance(model, [inputs]), example_importance(model, [inputs])
    assert set(found) == set(expected) == {"enc-enc", "enc-dec", "dec-dec"}
    for kind, values in expected.items():
        torch.testing.assert_close(each[kind], values.abs(), **ROUNDING)
        torch.testing.assert_close(found[kind], values.abs().mean(0), **ROUNDING)


def test_every_example_has_its_own_and_by_name_importance_is_normalised(model, split, derivatives):
    each = example_importance(model, split([2]))["self"]
    torch.testing.assert_close(each, derivatives.abs(), **ROUNDING)
    plain = derivatives.abs().mean(0)
    found = score_heads(model, split([]))["self"]
    torch.testing.assert_close(found, plain / plain.square().sum(1, keepdim=True).sqrt())


@pytest.mark.parametrize("name", ["bert", "bart"])
def test_by_token_it_is_a_mean_over_the_tokens_of_the_side_that_attends(name):
    model, batches = build(name), [batch_for(name, 3), batch_for(name, 2, seed=3)]
    total, tokens = {}, {}
    for row in [row for inputs in batches for row in rows_of(inputs)]:
        source, target = int(row["attention_mask"].sum()), int((row["labels"] != -100).sum())
        for block, each in gate_derivatives(model, row).items():
            place, own = (block.kind, block.layer), block.kind in ("self", "enc-enc")
            total[place] = total.get(place, 0) + each.abs().sum(0)
            tokens[place] = tokens.get(place, 0) + (source if own else target)
    found = importance_token(model, batches)
    for (kind, layer), values in total.items():
        torch.testing.assert_close(found[kind][layer], values / tokens[kind, layer], **ROUNDING)
    assert name == "bert" or len(set(tokens.values())) == 2
