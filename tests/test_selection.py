"""Orders, schedules and the masks that follow them, over all layers or layer by layer."""

import copy
import math

import pytest
import torch
from census import tiny as census_tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import build, scores_of

import headprune_lib as hp
from headprune_lib.selection import order_masks

MODELS = {name: build(name) for name in ("bert", "llama", "marian")}
MODELS["pruned"] = hp.prune_heads(build("bert"), [(0, 0), (0, 1)])


@settings(deadline=None)
@given(st.integers(1, 500), st.integers(1, 50))
def test_the_schedule_is_the_papers(n_heads, steps):
    schedule = hp.prune_schedule(n_heads, steps)
    assert schedule == [math.ceil(n_heads * i / steps - 1e-9) for i in range(steps + 1)]
    assert schedule[0] == 0 and schedule[-1] == n_heads and schedule == sorted(schedule)


def test_the_order_is_ascending_with_ties_in_place_and_removed_heads_left_out():
    scores = {"self": torch.tensor([[0.3, 0.1], [0.1, float("nan")]])}
    assert hp.rank_heads(scores) == [("self", 0, 1), ("self", 1, 0), ("self", 0, 0)]


def test_masks_along_an_order_are_those_of_each_number_of_heads():
    model = build("bart")
    order = hp.rank_heads(scores_of(model, 0))
    counts = [5, 0, len(order), 1]
    for n_cut, mask in zip(counts, order_masks(model, order, counts), strict=True):
        torch.testing.assert_close(mask, hp.head_mask(model, order[:n_cut]), rtol=0, atol=0)
    for wrong in (-1, len(order) + 1):
        with pytest.raises(ValueError, match=f"n_cut is {wrong}. Give 0 to {len(order)}"):
            order_masks(model, order, [1, wrong])


@pytest.mark.filterwarnings("ignore:amount")
@settings(deadline=None, max_examples=50)
@given(st.sampled_from(sorted(MODELS)), st.floats(0, 1), st.integers(0, 4), st.integers(0, 99))
def test_a_prune_mask_can_be_removed_and_keeps_to_its_bounds(name, amount, keep, seed):
    model = MODELS[name]
    mask = hp.prune_mask(model, scores_of(model, seed), amount, keep_at_least=keep)
    n_heads, n_left = sum(len(block.kept_heads) for block in hp.find_heads(model)), 0
    for block in hp.find_heads(model):
        row = mask[block.kind][block.layer, list(block.kept_heads)]
        n_left += int(row.sum())
        assert row.sum() >= min(keep, len(row))
        size = block.queries_per_kv
        assert set(row.unflatten(0, (-1, size)).sum(1).tolist()) <= {0.0, size}
    assert n_heads - n_left <= amount * n_heads + 1e-6  # of the heads that are left
    if keep == 0:
        assert n_heads - n_left == math.floor(amount * n_heads + 1e-9) // size * size
        hp.prune_heads(copy.deepcopy(model), mask)


@pytest.mark.parametrize(
    ("name", "scores", "kept"),
    [
        ("bert", [[4, 1, 3, 2], [10, 40, 20, 30], [4, 3, 2, 1]],
         [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]]),
        ("llama", [[0, 9, 4, 4], [4, 4, 1, 8], [1, 1, 0, 3]],  # groups are ranked by their mean
         [[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]),
    ],
)  # fmt: skip
def test_the_best_of_each_layer_stay(name, scores, kept):
    mask = hp.uniform_mask(MODELS[name], {"self": torch.tensor(scores).float()}, 0.5)
    assert mask["self"].tolist() == kept


@pytest.mark.filterwarnings("ignore:amount")
@settings(max_examples=12, deadline=None)
@given(
    name=st.sampled_from(["bert", "llama", "t5"]),
    amount=st.floats(0, 1),
    keep_at_least=st.integers(1, 4),
    seed=st.integers(0, 9),
)
def test_as_many_in_each_layer_and_never_more_gone_than_asked(name, amount, keep_at_least, seed):
    model = build(name, dtype=torch.float32)
    mask = hp.uniform_mask(model, scores_of(model, seed), amount, keep_at_least=keep_at_least)
    for values in mask.values():
        counts = (values == 1).sum(1).tolist()
        assert len(set(counts)) == 1
        assert 4 >= counts[0] >= max(keep_at_least, (1 - amount) * 4 - 1e-6)
    hp.prune_heads(copy.deepcopy(model), mask)  # whole groups


def test_layers_that_share_position_biases_keep_the_same_heads():
    model = build("t5")
    scores = {kind: torch.tensor([[1.0, 0, 0, 9], [5, 1, 0, 0]]) for kind in hp.ones_mask(model)}
    kept = hp.uniform_mask(model, scores, 0.5)
    assert kept["enc-enc"].tolist() == kept["dec-dec"].tolist() == [[1, 0, 0, 1]] * 2
    assert kept["enc-dec"].tolist() == [[1, 0, 0, 1], [1, 1, 0, 0]]  # no biases, so each its own


def test_a_model_that_is_uneven_is_made_even():
    model = build("bert")
    hp.prune_heads(model, hp.head_mask(model, [("self", 0, 1), ("self", 0, 2), ("self", 1, 0)]))
    hp.prune_heads(model, hp.uniform_mask(model, scores_of(model, 0), 0.0))
    assert [len(block.kept_heads) for block in hp.find_heads(model)] == [2, 2, 2]


LESS = [
    (hp.prune_mask, "bert", 0.5, {"keep_at_least": 4},
     "for 6 of 12 heads, but 0 can be removed: each layer keeps 4"),
    (hp.prune_mask, "llama", 0.3, {},
     "asks for 3 of 12 heads, but 2 can be removed: .* are removed together, 2 at a time"),
    (hp.prune_mask, "masks only", 0.9, {},
     "asks for 7 of 8 heads, but 0 can be removed: heads can only be masked"),
    (hp.uniform_mask, "bert", 0.1, {}, "amount 0.1 of 4 heads is less than one, so none is removed"),
]  # fmt: skip


@pytest.mark.parametrize(("choose", "name", "amount", "options", "message"), LESS)
def test_less_than_was_asked_for_is_said(choose, name, amount, options, message):
    model = census_tiny.build("bloom") if name == "masks only" else MODELS[name]
    with pytest.warns(UserWarning, match=message) as said:
        choose(model, scores_of(model, 0), amount, **options)
    assert len(said) == 1 and said[0].filename == __file__
