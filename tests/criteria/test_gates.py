"""Learned gates: their distribution, and what they keep."""

import pytest
import torch
from gates import loss_without
from tiny import build

from headprune_lib import cut_heads, prune_heads, prune_order, score_heads
from headprune_lib.criteria import search as module
from headprune_lib.criteria.search import gates, open_probability


@pytest.mark.parametrize("place", [-2.0, 0.0, 1.5])
def test_the_probability_is_the_share_of_draws_that_are_open(place):
    generator = torch.Generator().manual_seed(0)
    drawn = module._sampled(torch.full((200_000,), place), generator)
    assert drawn.min() >= 0 and drawn.max() <= 1
    share = float((drawn > 0).double().mean())
    assert share == pytest.approx(float(open_probability(torch.tensor(place))), abs=0.005)


def test_what_is_closed_first_costs_least(model, examples):
    """Against random orders: the loss without the six heads that the gates close."""
    found = score_heads(model, [examples], "gates", updates=150)
    learned = loss_without(model, examples, prune_order(found)[:6])
    heads = [("self", layer, head) for layer in range(3) for head in range(4)]
    generator = torch.Generator().manual_seed(0)
    orders = (torch.randperm(12, generator=generator)[:6] for _ in range(20))
    drawn = [loss_without(model, examples, [heads[i] for i in order]) for order in orders]
    assert learned < sorted(drawn)[2]


def test_without_a_use_all_gates_close_and_the_weights_stay(model, examples):
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    wanted = [weight.requires_grad for weight in model.parameters()]
    nothing = gates(
        model,
        [examples],
        loss=lambda outputs, batch: 0 * outputs.logits.sum(1),
        updates=60,
    )["self"]
    assert (nothing < 0).all()
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert [weight.requires_grad for weight in model.parameters()] == wanted
    assert all(weight.grad is None for weight in model.parameters())
    assert not any(each._forward_pre_hooks for each in model.modules())


def test_a_seed_gives_the_same_and_removed_heads_have_none(examples):
    smaller = prune_heads(build(), cut_heads(build(), [("self", 1, head) for head in range(4)]))
    one, other, third = (
        gates(smaller, [examples], updates=3, seed=seed)["self"] for seed in (1, 1, 2)
    )
    assert not torch.equal(one[0], third[0])
    with pytest.raises(ValueError, match="updates is 0"):
        gates(smaller, [examples], updates=0)
    torch.testing.assert_close(one, other, equal_nan=True, rtol=0, atol=0)
    assert one[1].isnan().all() and one[[0, 2]].isfinite().all()
