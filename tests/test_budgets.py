"""A budget is kept, and one step less would break it; whatever is bounded, for every order."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import build

from headprune_lib import find_heads, full_mask
from headprune_lib.budgets import Seconds, cache_cost, cut_until, cut_while, parameters_cost
from headprune_lib.orders import prune_steps

MODELS = {name: build(name, dtype=torch.float32) for name in ("bert", "llama", "t5")}
CACHED = {name: MODELS[name] for name in ("llama", "t5")}


def steps_of(model, seed, **options):
    drawn = torch.Generator().manual_seed(seed)
    scores = {
        kind: torch.rand(mask.shape, generator=drawn) for kind, mask in full_mask(model).items()
    }
    return prune_steps(model, scores, **options)


def table_of(model, seed):
    """Seconds that do not even fall with the heads, as measured ones may not."""
    drawn = torch.Generator().manual_seed(seed)
    blocks = tuple(find_heads(model))
    sizes = [(heads, groups) for heads in range(5) for groups in range(5)]
    layers = {
        block.path: {size: torch.rand((), generator=drawn).item() for size in sizes}
        for block in blocks
    }
    return Seconds(10.0, layers, blocks)


COSTS = {
    "parameters": lambda name, _seed: parameters_cost(MODELS[name]),
    "cache": lambda name, _seed: cache_cost(CACHED.get(name, MODELS["t5"]), 3, 7),
    "seconds": lambda name, seed: table_of(MODELS[name], seed),
}
order = st.fixed_dictionaries(
    {"seed": st.integers(0, 99), "keep_at_least": st.integers(0, 2), "per_group": st.booleans()}
)


def mask_after(model, steps, n):
    mask = full_mask(model)
    for step in steps[:n]:
        for kind, layer, head in step:
            mask[kind][layer, head] = 0
    return mask


@settings(deadline=None, max_examples=15)
@given(st.sampled_from(sorted(COSTS)), st.sampled_from(sorted(MODELS)), order, st.floats(0, 1))
def test_a_cost_is_kept_and_one_step_less_would_break_it(what, name, order, share):
    name = "t5" if what == "cache" and name == "bert" else name
    model, steps = MODELS[name], steps_of(MODELS[name], **order)
    cost = COSTS[what](name, order["seed"])
    every = [cost(mask_after(model, steps, n)) for n in range(len(steps) + 1)]
    at_most = min(every) + share * (max(every) - min(every))
    cut = cut_until(model, steps, cost, at_most)
    assert cost(cut.mask) <= at_most
    assert all(value > at_most for value in every[: cut.steps])
    assert all(
        torch.equal(cut.mask[kind], values)
        for kind, values in mask_after(model, steps, cut.steps).items()
    )
    assert [point.value for point in cut.curve] == every[: cut.steps + 1]
    assert [point.heads for point in cut.curve] == [
        sum(map(len, steps[:n])) for n in range(cut.steps + 1)
    ]
    # monotone: who may spend more keeps at least as much
    assert cut_until(model, steps, cost, at_most + 1).steps <= cut.steps
    with pytest.raises(ValueError, match="out of reach: the model has .* now, and"):
        cut_until(model, steps, cost, min(every) * (1 - 1e-9) - 1e-9)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.floats(0, 1, allow_nan=False), min_size=13, max_size=13), st.booleans(),
    st.floats(0, 1), st.floats(0, 1),
)  # fmt: skip
def test_a_quality_is_kept_and_the_next_step_would_break_it(drawn, falling, floor, lower):
    model, steps, asked = MODELS["bert"], steps_of(MODELS["bert"], 0), []
    curve = sorted(drawn, reverse=True) if falling else drawn

    def quality(mask):
        n = int((mask["self"] == 0).sum())
        asked.append(n)
        return curve[n]

    floor, lower = floor * curve[0], lower * floor * curve[0]
    cut = cut_while(model, steps, quality, floor)
    assert curve[cut.steps] >= floor
    assert cut.steps == 12 or curve[cut.steps + 1] < floor
    assert len(asked) == len(set(asked)) <= 2 + math.ceil(math.log2(13))
    assert {(point.steps, point.value) for point in cut.curve} == {(n, curve[n]) for n in asked}
    if falling:
        assert cut.steps == max(n for n in range(13) if curve[n] >= floor)
        assert cut_while(model, steps, quality, lower).steps >= cut.steps
    with pytest.raises(ValueError, match="the uncut model reaches .* itself"):
        cut_while(model, steps, quality, curve[0] + 0.1)


def test_a_quality_that_is_not_a_number_is_never_good_enough():
    model = MODELS["bert"]
    with pytest.raises(ValueError, match="the uncut model reaches nan itself"):
        cut_while(model, steps_of(model, 0), lambda _mask: math.nan, 0.5)
