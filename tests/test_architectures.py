"""A class that is not in the table can be taught."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from headprune_lib import (
    cut_heads,
    find_heads,
    head_importance,
    masked_heads,
    prune_heads,
    register_attention,
)
from headprune_lib.architectures import ARCHITECTURES, UnknownArchitecture


class OwnAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads, self.size = 4, 2
        self.mix = nn.Linear(6, 3 * 8)
        self.back = nn.Linear(8, 6)

    def forward(self, x):
        query, key, value = (part.unflatten(-1, (-1, self.size)).transpose(1, 2)
                             for part in self.mix(x).chunk(3, -1))
        made = scaled_dot_product_attention(query, key, value).transpose(1, 2)
        return self.back(made.reshape(*x.shape[:-1], -1))


class OwnModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([OwnAttention() for _ in range(2)])

    def forward(self, inputs):
        for layer in self.layers:
            inputs = inputs + layer(inputs)
        return inputs


@pytest.fixture
def taught(forget_taught):
    register_attention(OwnAttention, fused="mix", output="back", n_heads="heads", width="size",
                       returns=1)
    torch.manual_seed(0)
    return OwnModel()


def test_a_taught_class_is_masked_scored_and_removed(taught):
    inputs, mask = torch.randn(3, 5, 6), cut_heads(taught, [("self", 0, 1), ("self", 1, 3)])
    mask["self"][1] = 0
    with masked_heads(taught, mask), torch.no_grad():
        masked = taught(inputs)
    assert not torch.allclose(masked, taught(inputs))
    pruned = prune_heads(copy.deepcopy(taught), mask)
    torch.testing.assert_close(pruned(inputs), masked)
    assert [block.kept for block in find_heads(pruned)] == [(0, 2, 3), ()]
    scores = head_importance(taught, [{"inputs": inputs}],
                             loss=lambda outputs, _batch: outputs.square().sum((1, 2)))
    assert scores["self"].shape == (2, 4) and (scores["self"] > 0).all()


def test_an_unknown_class_is_named_with_the_way_to_teach_it():
    with pytest.raises(UnknownArchitecture, match=r"'OwnAttention'.*register_attention"):
        find_heads(OwnModel())


@pytest.mark.parametrize("names", [
    {"query": "q", "key": "k"}, {}, {"query": "q", "key": "k", "value": "v", "fused": "qkv"}])
def test_projections_named_by_half_are_refused(names):
    with pytest.raises(ValueError, match="all three projections, or the fused one"):
        register_attention("Half", output="o", **names)
    assert "Half" not in ARCHITECTURES
