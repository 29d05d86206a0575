"""Shapley values: of one order what each head adds to those before it, and a mean over orders."""

import itertools

import pytest
import torch
from gates import loss_without
from tiny import build

from headprune_lib import cut_heads, prune_heads, score_heads
from headprune_lib.criteria.search import shapley

EVERY = [("self", layer, head) for layer in range(3) for head in range(4)]
LEFT = [("self", 0, 1), ("self", 2, 0), ("self", 2, 3)]


def test_one_permutation_gives_each_head_what_it_adds_to_those_before_it(examples):
    """Of three heads that are left, so that every order can be tried."""
    model = prune_heads(build(), cut_heads(build(), [head for head in EVERY if head not in LEFT]))
    possible = []
    for order in itertools.permutations(LEFT):
        losses = [
            loss_without(model, examples, [head for head in LEFT if head not in order[:n]])
            for n in range(4)
        ]
        adds = {head: losses[i] - losses[i + 1] for i, head in enumerate(order)}
        possible.append([adds[head] for head in LEFT])
    drawn = set()
    for seed in range(8):
        found = shapley(model, [examples], permutations=1, seed=seed)["self"]
        assert found.isnan().sum() == 9
        values = [float(found[layer, head]) for _, layer, head in LEFT]
        fits = [values == pytest.approx(each, rel=1e-9, abs=1e-12) for each in possible]
        assert sum(fits) == 1
        drawn.add(fits.index(True))
    assert len(drawn) > 2


def test_the_values_sum_to_what_all_heads_do(model, examples, split):
    whole = loss_without(model, examples, EVERY) - loss_without(model, examples, [])
    found = score_heads(model, [examples], "shapley", permutations=2)["self"]
    assert float(found.sum()) == pytest.approx(whole, rel=1e-9)
    halves = shapley(model, split([3]), permutations=4)["self"]  # batches of equal size take turns
    assert float(halves.sum()) == pytest.approx(whole, rel=1e-9)
    one, other = (shapley(model, [examples], permutations=2, seed=seed)["self"] for seed in (0, 1))
    assert torch.equal(one, found) and not torch.equal(one, other)
    with pytest.raises(ValueError, match="permutations is 0"):
        shapley(model, [examples], permutations=0)
