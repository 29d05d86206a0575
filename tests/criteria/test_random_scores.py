"""Scores at random: of the seed and the model's shape alone."""

import torch
from tiny import build

from headprune_lib import cut_heads, prune_heads, prune_order, score_heads


def test_a_seed_is_an_order():
    model = build("marian")
    first, again = (score_heads(model, [], "random", seed=3) for _ in range(2))
    assert all(torch.equal(first[kind], again[kind]) for kind in first)
    assert prune_order(first) != prune_order(score_heads(model, [], "random", seed=4))
    assert all(((values >= 0) & (values < 1)).all() for values in first.values())


def test_the_heads_left_keep_their_scores():
    whole = score_heads(build(), [], "random")["self"]
    pruned = prune_heads(build(), cut_heads(build(), [("self", 1, 2)]))
    left = score_heads(pruned, [], "random")["self"]
    assert left[1, 2].isnan()
    assert torch.equal(left[left.isfinite()], whole[left.isfinite()])


def test_many_seeds_are_uniform():
    """The mean of 2,000 uniform numbers lies within five standard errors of a half."""
    model = build()
    drawn = torch.cat(
        [score_heads(model, [], "random", seed=seed)["self"].flatten() for seed in range(170)]
    )
    assert abs(drawn.mean() - 0.5) < 5 * (1 / 12) ** 0.5 / len(drawn) ** 0.5
