"""Scores at random: of the seed and the model's shape alone."""

import torch
from tiny import build

from headprune_lib import prune_order, score_heads


def test_a_seed_is_an_order():
    model = build("marian")
    first, again = (score_heads(model, [], "random", seed=3) for _ in range(2))
    assert all(torch.equal(first[kind], again[kind]) for kind in first)
    assert prune_order(first) != prune_order(score_heads(model, [], "random", seed=4))
    assert all(((values >= 0) & (values < 1)).all() for values in first.values())
