"""Greedy search, Shapley values and learned gates, against computations written out here."""

import itertools

import pytest
import torch
from gates import loss_without
from tiny import batch_for, build, unchanged

from headprune_lib import head_mask, prune_heads, rank_heads, score_heads
from headprune_lib.criteria.search import gates, losses_without, shapley
from headprune_lib.discovery import find_heads
from headprune_lib.losses import default_loss

EVERY = [("self", layer, head) for layer in range(3) for head in range(4)]
LEFT = [("self", 0, 1), ("self", 2, 0), ("self", 2, 3)]


def test_one_head_a_step_is_backward_elimination(model, examples):
    gone, left = [], list(EVERY)
    while left:
        best = min(left, key=lambda head: loss_without(model, examples, [*gone, head]))
        gone.append(best)
        left.remove(best)
    found = score_heads(model, [examples], "greedy", steps=12)
    assert rank_heads(found) == gone
    assert sorted(found["self"].flatten().tolist()) == pytest.approx([i / 11 for i in range(12)])


@pytest.mark.parametrize("name", ["bert", "mpnet", "albert", "modernbert", "marian"])
def test_reused_activations_give_the_losses_of_plain_passes(name):
    model, batches = build(name), [batch_for(name), batch_for(name, n=3, seed=4)]
    blocks = find_heads(model)
    heads = [(b.kind, b.layer, head) for b in blocks for head in b.kept_heads]
    mask = head_mask(model, [heads[1], heads[-1]])
    left = [head for head in heads if head not in (heads[1], heads[-1])]
    plain = losses_without(model, blocks, batches, left, mask, loss=default_loss(model))
    assert losses_without(model, blocks, batches, left, mask) == pytest.approx(plain, rel=1e-9)


def test_one_permutation_gives_each_head_what_it_adds_to_those_before_it(examples):
    """Only three heads are left, so that every order can be tried."""
    model = prune_heads(build(), head_mask(build(), [head for head in EVERY if head not in LEFT]))
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


@pytest.mark.slow
def test_what_is_closed_first_costs_least(model, examples):
    """Compared with random orders: the loss without the six heads that the gates close."""
    found = score_heads(model, [examples], "gates", updates=150)
    learned = loss_without(model, examples, rank_heads(found)[:6])
    generator = torch.Generator().manual_seed(0)
    orders = (torch.randperm(12, generator=generator)[:6] for _ in range(20))
    drawn = [loss_without(model, examples, [EVERY[i] for i in order]) for order in orders]
    assert learned < sorted(drawn)[2]


def test_without_a_use_all_gates_close_and_the_weights_stay(model, examples):
    with unchanged(model):
        nothing = gates(
            model, [examples], loss=lambda outputs, batch: 0 * outputs.logits.sum(1), updates=60
        )["self"]
    assert (nothing < 0).all()
