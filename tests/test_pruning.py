"""Orders, schedules, and what is refused when weights are removed, saved and loaded."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import build

from headprune_lib import (
    cut_heads,
    load_pruned,
    prune_heads,
    prune_order,
    prune_schedule,
    save_pruned,
)
from headprune_lib.pruning import order_mask


@given(st.integers(1, 500), st.integers(1, 50))
def test_the_schedule_is_the_papers(n_heads, steps):
    schedule = prune_schedule(n_heads, steps)
    assert schedule == [math.ceil(n_heads * i / steps - 1e-9) for i in range(steps + 1)]
    assert schedule[0] == 0 and schedule[-1] == n_heads and schedule == sorted(schedule)


def test_the_order_is_ascending_with_ties_in_place_and_removed_heads_left_out():
    scores = {"self": torch.tensor([[0.3, 0.1], [0.1, float("nan")]])}
    assert prune_order(scores) == [("self", 0, 1), ("self", 1, 0), ("self", 0, 0)]


def test_order_mask_cuts_the_first():
    model = build()
    mask = order_mask(model, [("self", 2, 3), ("self", 0, 0)], 1)
    assert mask["self"][2, 3] == 0 and mask["self"].sum() == 11


def test_removing_a_removed_head_is_refused():
    model = prune_heads(build(), cut_heads(build(), [("self", 0, 1)]))
    with pytest.raises(ValueError, match=r"already removed.*\('self', 0, 1\).*unpruned model"):
        prune_heads(model, cut_heads(model, [("self", 0, 1)]))


def test_a_soft_mask_cannot_be_removed():
    with pytest.raises(ValueError, match="0 and 1 only"):
        prune_heads(build(), {"self": torch.full((3, 4), 0.5)})


def test_nothing_is_overwritten_and_damage_is_named(tmp_path):
    model = build(dtype=torch.float32)
    folder = save_pruned(model, tmp_path / "model")
    with pytest.raises(FileExistsError, match="not empty"):
        save_pruned(model, folder)
    with pytest.raises(FileNotFoundError, match="config.json is missing"):
        load_pruned(tmp_path)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ValueError, match="damaged"):
        load_pruned(folder)
