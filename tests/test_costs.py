"""What a pruned model is said to take is what it takes, counted or timed on one."""

import copy

import pytest
import torch
from ownmodels import OwnModel
from test_grouped_queries import MODELS as GROUPED
from test_grouped_queries import made
from tiny import BUILDERS, build, same_weights

from headprune_lib import budgets, find_heads, full_mask, prune_heads
from headprune_lib.budgets import cache_cost, parameters_cost, random_tokens, seconds_cost
from headprune_lib.orders import prune_steps


def masks(model, per_group=False):
    """After some of the steps, after more, and after all."""
    drawn = torch.Generator().manual_seed(0)
    scores = {
        kind: torch.rand(mask.shape, generator=drawn) for kind, mask in full_mask(model).items()
    }
    steps = prune_steps(model, scores, per_group=per_group)
    for n in (1, len(steps) // 2, len(steps)):
        mask = full_mask(model)
        for kind, layer, head in [head for step in steps[:n] for head in step]:
            mask[kind][layer, head] = 0
        yield mask


QUICK = {"bert", "gpt2", "t5", "llama", next(iter(GROUPED))}


def counted(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("name", "per_group"),
    [
        pytest.param(name, name in GROUPED, marks=[pytest.mark.slow] * (name not in QUICK))
        for name in (*BUILDERS, *GROUPED)
    ],
)
def test_parameters_are_those_of_the_pruned_model(name, per_group):
    model = made(name) if name in GROUPED else build(name, dtype=torch.float32)
    cost, before = parameters_cost(model), counted(model)
    assert cost(full_mask(model)) == before == counted(model)
    for mask in masks(model, per_group):
        pruned = prune_heads(copy.deepcopy(model), mask)
        assert cost(mask) == counted(pruned)
        again = parameters_cost(pruned)  # of what is left
        assert again(full_mask(pruned)) == counted(pruned)


def kept_bytes(model, batch_size, length):
    with torch.no_grad():
        made = model(**random_tokens(model, batch_size, length), use_cache=True).past_key_values
    sides = [getattr(made, f"{side}_attention_cache", None) for side in ("self", "cross")]
    caches = [cache for cache in sides if cache is not None] or [made]
    layers = [layer for cache in caches for layer in cache.layers if layer.keys is not None]
    return sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)


@pytest.mark.parametrize("name", ["gpt2", "gpt-neox", "mistral", "bart", "t5", *GROUPED])
def test_the_cache_is_that_of_the_pruned_model(name):
    dtype = torch.bfloat16 if name in GROUPED else torch.float32
    model = (made(name) if name in GROUPED else build(name)).to(dtype)
    cost = cache_cost(model, 3, 9)
    assert cost(full_mask(model)) == kept_bytes(model, 3, 9)
    for mask in masks(model, per_group=name in GROUPED):
        assert cost(mask) == kept_bytes(prune_heads(copy.deepcopy(model), mask), 3, 9)


def test_seconds_are_those_of_the_pruned_model(monkeypatch):
    """By a clock that a layer moves itself: two seconds a head."""
    clock = [0.0]

    def by_that_clock(run, _device):
        start = clock[0]
        run()
        return clock[0] - start

    def ticking(_module, _given, queries):
        clock[0] += queries.shape[-1]  # of two numbers a head

    monkeypatch.setattr(budgets, "seconds_of", by_that_clock)
    model, ids = OwnModel("", ""), {"input_ids": torch.randint(0, 20, (2, 5))}
    find_heads(model)
    for layer in model.layers:
        layer.wq.register_forward_hook(ticking)
    before = copy.deepcopy(model.state_dict())
    steps = [[("self", 0, 1)], [("self", 1, 0)], [("self", 0, 0)], [("self", 0, 2)]]
    cost = seconds_cost(model, ids, steps, rounds=5)
    assert same_weights(model, before)
    mask = full_mask(model)
    for number, ((kind, layer, head),) in enumerate(steps, 1):
        mask[kind][layer, head] = 0
        assert cost(mask) == pytest.approx(2 * (8 - number))
    mask["self"][1] = 0
    with pytest.raises(ValueError, match="layers.1 was not measured with 0 heads of 0 groups"):
        cost(mask)
