"""A budget is kept, and one step less would exceed it; a pruned model costs what it is said to."""

import copy
import math
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ownmodels import OwnModel
from tiny import BUILDERS, GROUPS, build, in_tiers, same_weights, scores_of

from headprune_lib import budgets, find_heads, head_mask, ones_mask, prune_heads
from headprune_lib.selection import removal_units

MODELS = {name: build(name, dtype=torch.float32) for name in ("bert", "llama", "t5")}


def steps_of(model, seed, **options):
    return removal_units(model, scores_of(model, seed), **options)


def table_of(model, seed):
    """Seconds that need not fall with the heads, as measured ones may not."""
    drawn, blocks = random.Random(seed), tuple(find_heads(model))
    sizes = [(heads, groups) for heads in range(5) for groups in range(5)]
    return budgets.Seconds(
        10.0, {b.path: {size: drawn.random() for size in sizes} for b in blocks}, blocks
    )


COSTS = {
    "parameters": lambda model, _seed: budgets.parameters_cost(model),
    "cache": lambda model, _seed: budgets.cache_cost(model, 3, 7),
    "seconds": table_of,
}
order = st.fixed_dictionaries(
    {"seed": st.integers(0, 99), "keep_at_least": st.integers(0, 2), "per_group": st.booleans()}
)


def mask_after(model, steps, n):
    return head_mask(model, [head for step in steps[:n] for head in step])


@settings(deadline=None, max_examples=15)
@given(st.sampled_from(sorted(COSTS)), st.sampled_from(sorted(MODELS)), order, st.floats(0, 1))
def test_a_cost_is_kept_and_one_step_less_would_break_it(what, name, order, share):
    model = MODELS["t5" if what == "cache" and name == "bert" else name]
    steps, cost = steps_of(model, **order), COSTS[what](model, order["seed"])
    masks = [mask_after(model, steps, n) for n in range(len(steps) + 1)]
    every = [cost(mask) for mask in masks]
    at_most = min(every) + share * (max(every) - min(every))
    cut = budgets.prune_to_budget(model, steps, cost, at_most)
    assert cost(cut.mask) <= at_most
    assert all(value > at_most for value in every[: cut.steps])
    torch.testing.assert_close(cut.mask, masks[cut.steps])
    heads = [sum(map(len, steps[:n])) for n in range(cut.steps + 1)]
    assert [(point.heads, point.value) for point in cut.curve] == [*zip(heads, every, strict=False)]
    # monotone: a larger budget keeps at least as many heads
    assert budgets.prune_to_budget(model, steps, cost, at_most + 1).steps <= cut.steps
    with pytest.raises(ValueError, match="cannot be reached: the model has .* now, and"):
        budgets.prune_to_budget(model, steps, cost, min(every) * (1 - 1e-9) - 1e-9)


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
    cut = budgets.prune_while(model, steps, quality, floor)
    assert curve[cut.steps] >= floor
    assert cut.steps == 12 or curve[cut.steps + 1] < floor
    assert len(asked) == len(set(asked)) <= 2 + math.ceil(math.log2(13))
    assert {(point.steps, point.value) for point in cut.curve} == {(n, curve[n]) for n in asked}
    if falling:
        assert cut.steps == max(n for n in range(13) if curve[n] >= floor)
        assert budgets.prune_while(model, steps, quality, lower).steps >= cut.steps
    with pytest.raises(ValueError, match="cannot be kept: the uncut model itself has"):
        budgets.prune_while(model, steps, quality, curve[0] + 0.1)
    with pytest.raises(ValueError, match="the uncut model itself has nan"):
        budgets.prune_while(model, steps, lambda _mask: math.nan, floor)


def masks(model, per_group=False):
    """Masks after the first step, after half of the steps, and after all."""
    steps = steps_of(model, 0, per_group=per_group)
    return [mask_after(model, steps, n) for n in (1, len(steps) // 2, len(steps))]


QUICK = {"bert", "gpt2", "t5", "llama, two groups"}


def counted(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", in_tiers(BUILDERS | GROUPS, QUICK))
def test_parameters_are_those_of_the_pruned_model(name):
    model = build(name, dtype=torch.float32)
    cost, before = budgets.parameters_cost(model), counted(model)
    assert cost(ones_mask(model)) == before == counted(model)
    for mask in masks(model, name in GROUPS):
        pruned = prune_heads(copy.deepcopy(model), mask)
        assert cost(mask) == counted(pruned)
        again = budgets.parameters_cost(pruned)  # of what is left
        assert again(ones_mask(pruned)) == counted(pruned)


def kept_bytes(model, batch_size, length):
    with torch.no_grad():
        made = model(
            **budgets.random_tokens(model, batch_size, length), use_cache=True
        ).past_key_values
    sides = [getattr(made, f"{side}_attention_cache", None) for side in ("self", "cross")]
    caches = [cache for cache in sides if cache is not None] or [made]
    layers = [layer for cache in caches for layer in cache.layers if layer.keys is not None]
    return sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)


@pytest.mark.parametrize("name", ["gpt2", "gpt-neox", "mistral", "bart", "t5", *GROUPS])
def test_the_cache_is_that_of_the_pruned_model(name):
    model = build(name, dtype=torch.bfloat16 if name in GROUPS else torch.float32)
    cost = budgets.cache_cost(model, 3, 9)
    assert cost(ones_mask(model)) == kept_bytes(model, 3, 9)
    for mask in masks(model, per_group=name in GROUPS):
        smaller = prune_heads(copy.deepcopy(model), mask)
        kept = kept_bytes(smaller, 3, 9)
        assert cost(mask) == kept
        assert budgets.cache_cost(smaller, 3, 9)(ones_mask(smaller)) == kept


def test_seconds_are_those_of_the_pruned_model(monkeypatch):
    """By a clock that the layers advance themselves, by two seconds per head."""
    clock = [0.0]

    def by_that_clock(run, _device):
        start = clock[0]
        run()
        return clock[0] - start

    def ticking(_module, _given, queries):
        clock[0] += queries.shape[-1]  # two numbers per head

    monkeypatch.setattr(budgets, "seconds_of", by_that_clock)
    model, ids = OwnModel("", ""), {"input_ids": torch.randint(0, 20, (2, 5))}
    find_heads(model)
    for layer in model.layers:
        layer.wq.register_forward_hook(ticking)
    before = copy.deepcopy(model.state_dict())
    steps = [[("self", 0, 1)], [("self", 1, 0)], [("self", 0, 0)], [("self", 0, 2)]]
    cost = budgets.seconds_cost(model, ids, steps, rounds=5)
    assert same_weights(model, before)
    mask = ones_mask(model)
    for number, ((kind, layer, head),) in enumerate(steps, 1):
        mask[kind][layer, head] = 0
        assert cost(mask) == pytest.approx(2 * (8 - number))
    mask["self"][1] = 0
    with pytest.raises(ValueError, match="layers.1 was not measured with .0, 0."):
        cost(mask)
