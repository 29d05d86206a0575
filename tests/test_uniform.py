"""Every layer keeps the same number of heads: its best."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import build

from headprune_lib import cut_heads, find_heads, full_mask, prune_heads, uniform_mask

MODELS = {name: build(name, dtype=torch.float32) for name in ("bert", "llama", "t5")}


def drawn(model, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {
        kind: torch.rand(mask.shape, generator=generator).masked_fill(mask.isnan(), torch.nan)
        for kind, mask in full_mask(model).items()
    }


def left(mask):
    return {kind: (values == 1).sum(1).tolist() for kind, values in mask.items()}


def test_the_best_of_each_layer_stay():
    model = build("bert")
    scores = {"self": torch.tensor([[4.0, 1, 3, 2], [10, 40, 20, 30], [0.4, 0.3, 0.2, 0.1]])}
    kept = uniform_mask(model, scores, 0.5)["self"]
    assert kept.tolist() == [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]]


@pytest.mark.filterwarnings("ignore:amount")
@settings(max_examples=12, deadline=None)
@given(
    name=st.sampled_from(sorted(MODELS)),
    amount=st.floats(0, 1),
    keep_at_least=st.integers(1, 4),
    seed=st.integers(0, 9),
)
def test_as_many_in_each_layer_and_never_more_gone_than_asked(name, amount, keep_at_least, seed):
    model = MODELS[name]
    mask = uniform_mask(model, drawn(model, seed), amount, keep_at_least=keep_at_least)
    for counts in left(mask).values():
        assert len(set(counts)) == 1
        assert 4 >= counts[0] >= max(keep_at_least, (1 - amount) * 4 - 1e-6)
    prune_heads(copy.deepcopy(model), mask)  # whole groups


def test_groups_go_by_their_mean():
    model = build("llama")
    scores = {"self": torch.tensor([[0.0, 9, 4, 4], [4, 4, 1, 8], [1, 1, 0, 3]])}
    kept = uniform_mask(model, scores, 0.5)["self"]
    assert kept.tolist() == [[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]


def test_layers_that_share_position_biases_keep_the_same_heads():
    model = build("t5")
    mask = uniform_mask(model, drawn(model), 0.5)
    assert mask["enc-enc"][0].tolist() == mask["enc-enc"][1].tolist()
    assert mask["dec-dec"][0].tolist() == mask["dec-dec"][1].tolist()
    scores = {kind: torch.tensor([[1.0, 0, 0, 9], [5, 1, 0, 0]]) for kind in mask}
    kept = uniform_mask(model, scores, 0.5)
    assert kept["enc-enc"].tolist() == [[1, 0, 0, 1]] * 2
    assert kept["enc-dec"].tolist() == [[1, 0, 0, 1], [1, 1, 0, 0]]  # no biases: each its own


def test_a_model_that_is_uneven_is_made_even():
    model = build("bert")
    prune_heads(model, cut_heads(model, [("self", 0, 1), ("self", 0, 2), ("self", 1, 0)]))
    prune_heads(model, uniform_mask(model, drawn(model), 0.0))
    assert [len(block.kept) for block in find_heads(model)] == [2, 2, 2]
