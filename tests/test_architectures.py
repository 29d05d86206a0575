"""A class that is not in the table can be taught."""

import copy
import dataclasses
import pickle

import pytest
import torch
from tiny import removed_as_masked
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers.models.bert.modeling_bert import BertAttention

from headprune_lib import cut_heads, find_heads, head_importance, prune_heads, register_attention
from headprune_lib.architectures import ARCHITECTURES, UnknownArchitecture


class OwnAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads, self.size = 4, 2
        self.mix = nn.Linear(6, 3 * 8)
        self.back = nn.Linear(8, 6)

    def forward(self, x):
        query, key, value = (
            part.unflatten(-1, (-1, self.size)).transpose(1, 2) for part in self.mix(x).chunk(3, -1)
        )
        context = scaled_dot_product_attention(query, key, value).transpose(1, 2)
        return self.back(context.reshape(*x.shape[:-1], -1))


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
    register_attention(
        OwnAttention, fused="mix", output="back", n_heads="heads", width="size", returns=1
    )
    torch.manual_seed(0)
    return OwnModel()


def test_a_taught_class_is_masked_scored_and_removed(taught):
    inputs, mask = torch.randn(3, 5, 6), cut_heads(taught, [("self", 0, 1), ("self", 1, 3)])
    mask["self"][1] = 0
    pruned = removed_as_masked(taught, mask, lambda model: model(inputs))
    assert not torch.allclose(pruned(inputs), taught(inputs))
    assert [block.kept for block in find_heads(pruned)] == [(0, 2, 3), ()]
    scores = head_importance(
        taught, [{"inputs": inputs}], loss=lambda outputs, _batch: outputs.square().sum((1, 2))
    )
    assert scores["self"].shape == (2, 4) and (scores["self"] > 0).all()


@pytest.mark.gpu
def test_a_taught_class_is_the_same_on_a_gpu(taught):
    inputs, mask = torch.randn(3, 5, 6), cut_heads(taught, [("self", 0, 1), ("self", 1, 3)])
    there = prune_heads(copy.deepcopy(taught).cuda(), mask)
    with torch.no_grad():
        expected = prune_heads(taught, mask)(inputs)
        torch.testing.assert_close(there(inputs.cuda()).cpu(), expected, rtol=1e-4, atol=1e-4)


class BiasedCore(nn.Module):
    """Adds a bias a head, (1, head, T, T), to the products of queries and keys, and returns it."""

    def __init__(self, returns):
        super().__init__()
        self.heads, self.size, self.returns = 4, 2, returns
        self.has_relative_attention_bias = returns == 3
        self.q, self.k, self.v = (nn.Linear(6, 8) for _ in range(3))

    def forward(self, x, bias=None):
        query, key, value = (
            part(x).unflatten(-1, (-1, self.size)).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        if bias is None:
            bias = self.compute_bias(x.shape[1], x.shape[1], device=x.device)
        weights = (query @ key.transpose(-1, -2) + bias).softmax(-1)
        context = (weights @ value).transpose(1, 2).reshape(*x.shape[:-1], -1)
        return (context, weights, bias)[: self.returns] if self.returns > 1 else context

    def compute_bias(self, length, key_length, device=None, past_seen_tokens=0):
        distances = (torch.arange(length)[:, None] - torch.arange(key_length)).abs().double()
        return -distances * torch.arange(1, 5)[None, :, None, None]  # all heads that ever were


class BiasedAttention(nn.Module):
    def __init__(self, returns):
        super().__init__()
        self.inner, self.back = BiasedCore(returns), nn.Linear(8, 6)

    def forward(self, x, bias=None):
        attended = self.inner(x, bias=bias)
        context, *more = attended if isinstance(attended, tuple) else (attended,)
        return x + self.back(context), (more[1] if len(more) > 1 else bias)


class BiasedModel(nn.Module):
    """With three things returned the lowest layer makes the bias, as in T5; else the model does."""

    def __init__(self, returns):
        super().__init__()
        self.returns = returns
        self.layers = nn.ModuleList([BiasedAttention(returns) for _ in range(3)])

    def forward(self, inputs):
        n = inputs.shape[1]
        bias = None if self.returns == 3 else self.layers[0].inner.compute_bias(n, n)
        for layer in self.layers:
            inputs, bias = layer(inputs, bias)
        return inputs


@pytest.mark.parametrize("returns", [1, 2, 3])
@pytest.mark.parametrize("empty", [None, 0, 1])
def test_a_core_with_a_bias_a_head_is_removed_copied_and_pickled(forget_taught, returns, empty):
    register_attention(
        BiasedAttention, core="inner", query="inner.q", key="inner.k", value="inner.v",
        output="back", n_heads="heads", width="size", bias_argument="bias",
        bias_output=2 if returns == 3 else None, returns=returns,
    )  # fmt: skip
    torch.manual_seed(0)
    model, inputs = BiasedModel(returns).double(), torch.randn(2, 5, 6).double()
    mask = cut_heads(model, [("self", 0, 1), ("self", 1, 3), ("self", 2, 0), ("self", 2, 2)])
    if empty is not None:
        mask["self"][empty] = 0
    pruned = removed_as_masked(model, mask, lambda each: each(inputs))
    expected = pruned(inputs)
    expected.sum().backward()  # nothing of a pass, such as a bias, stays behind
    ARCHITECTURES.clear()  # as in another program, to which nobody taught the class
    for copied in (pruned, copy.deepcopy(pruned), pickle.loads(pickle.dumps(pruned))):
        torch.testing.assert_close(copied(inputs), expected)
        assert [len(block.kept) for block in find_heads(copied)] == mask["self"].sum(1).tolist()


def test_a_part_that_is_not_there_and_an_unknown_class_are_refused(taught):
    block = find_heads(taught)[0]
    with pytest.raises(ValueError, match=r"layers.0 has no part 'query'.*'fused', 'output'"):
        block.part(taught, "query")
    del ARCHITECTURES["OwnAttention"]
    message = r"refused: OwnAttention \(layers.0.*register_attention"
    with pytest.raises(UnknownArchitecture, match=message):
        find_heads(OwnModel())


THREE = {"query": "q", "key": "k", "value": "v", "output": "o"}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({**THREE, "output": ""}, "output is ''.*every attention module has one"),
        ({**THREE, "width": ""}, "width is ''"),
        ({**THREE, "more_rows": "positions"}, "give a tuple"),
        ({**THREE, "core": "self", "norm": "LayerNorm"}, "leave norm out"),
        ({**THREE, "bias_output": 1}, "no bias_argument is named"),
        ({**THREE, "bias_argument": "bias", "bias_output": 2}, "bias_output is 2, returns 2"),
        ({**THREE, "bias_argument": "bias", "bias_output": 0}, "bias_output is 0"),
        ({**THREE, "returns": 0}, "at least one tensor"),
        ({"output": "o", "query": "q", "key": "k"}, "all three projections, or the fused one"),
        ({**THREE, "fused": "qkv"}, "all three projections, or the fused one"),
        ({"like": "BertAtention"}, "'BertAtention': did you mean BertAttention"),
        ({"like": "BertAttention", "heads": "n"}, "no field 'heads'.*'n_heads'"),
        ({"like": "BertAttention", "fused": "qkv"}, "or the fused one"),
    ],
)
def test_names_that_contradict_each_other_are_refused(names, message):
    with pytest.raises((ValueError, TypeError), match=message):
        register_attention("Half", **names)
    assert "Half" not in ARCHITECTURES


def test_a_class_is_taught_by_its_likeness_to_another(forget_taught):
    bert = ARCHITECTURES["BertAttention"]
    for like in ("BertAttention", BertAttention, bert):
        assert register_attention("Own", like=like) == bert
    changed = register_attention("Own", like="BertAttention", output="out", width=None)
    assert changed == dataclasses.replace(bert, output="out", width=None)
    assert ARCHITECTURES["Own"] is changed and ARCHITECTURES["BertAttention"] == bert
