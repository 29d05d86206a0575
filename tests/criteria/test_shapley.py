"""Shapley values against all orders of a small game, and their sum."""

import itertools
import math

import pytest
import torch
from gates import loss_without
from tiny import build

from headprune_lib import cut_heads, prune_heads, score_heads
from headprune_lib.criteria.shapley import shapley


@pytest.fixture(scope="module")
def three_heads():
    """A model with three heads left, so that every order of them can be tried."""
    cut = [("self", layer, head) for layer in range(3) for head in range(4)]
    for head in [("self", 0, 1), ("self", 2, 0), ("self", 2, 3)]:
        cut.remove(head)
    return prune_heads(build(), cut_heads(build(), cut))


def test_many_permutations_come_near_the_mean_over_all_orders(three_heads, examples):
    heads = [("self", 0, 1), ("self", 2, 0), ("self", 2, 3)]
    expected = dict.fromkeys(heads, 0.0)
    for order in itertools.permutations(heads):
        for i, head in enumerate(order):
            before, after = (loss_of(three_heads, examples, order[:n]) for n in (i, i + 1))
            expected[head] += (before - after) / math.factorial(3)
    found = shapley(three_heads, [examples], permutations=300)["self"]
    for _, layer, head in heads:
        value = expected["self", layer, head]
        assert float(found[layer, head]) == pytest.approx(value, abs=0.15 * max(expected.values()))
    assert found.isnan().sum() == 9


def loss_of(model, batch, present):
    heads = [("self", 0, 1), ("self", 2, 0), ("self", 2, 3)]
    return loss_without(model, batch, [head for head in heads if head not in present])


def test_the_values_sum_to_what_all_heads_do(model, examples, split):
    every = [("self", layer, head) for layer in range(3) for head in range(4)]
    whole = loss_without(model, examples, every) - loss_without(model, examples, [])
    found = score_heads(model, [examples], "shapley", permutations=2)["self"]
    assert float(found.sum()) == pytest.approx(whole, rel=1e-9)
    halves = shapley(model, split([3]), permutations=4)["self"]  # batches of equal size take turns
    assert float(halves.sum()) == pytest.approx(whole, rel=1e-9)
    one, other = (shapley(model, [examples], permutations=2, seed=seed)["self"] for seed in (0, 1))
    assert torch.equal(one, found) and not torch.equal(one, other)


def test_bad_input(model, examples):
    with pytest.raises(ValueError, match="permutations is 0"):
        shapley(model, [examples], permutations=0)
    with pytest.raises(ValueError, match="no batches"):
        shapley(model, [])
