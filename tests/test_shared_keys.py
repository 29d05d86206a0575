"""Layers that read the keys and values of another layer, in models and by behaviour.

The census tests that such a model passes every law.
"""

import copy

import pytest
import torch
import transformers as t
from ownmodels import GroupedAttention, GroupedModel
from tiny import GROUPED, drawn, in_tiers, logits_of, removed_as_masked, unchanged
from torch import nn

import headprune_lib as hp
from headprune_lib.budgets import cache_cost, parameters_cost
from headprune_lib.selection import removal_units

TYPES = ["sliding_attention", "full_attention"]
CONFIG = {
    **GROUPED, "num_hidden_layers": 5, "layer_types": [TYPES[0], *TYPES, *TYPES], "sliding_window": 4,
    "hidden_size_per_layer_input": 4, "vocab_size_per_layer_input": 30, "num_kv_shared_layers": 2,
}  # fmt: skip
IDS = torch.tensor([[5, 6, 7, 8, 9, 10], [11, 12, 13, 14, 15, 16]])
FREE, MAKERS, READERS = (0,), (1, 2), (3, 4)


def build(**changes):
    torch.manual_seed(0)
    config = t.Gemma4TextConfig(**CONFIG | changes, global_head_dim=4)
    return drawn(t.Gemma4ForCausalLM(config)).double()  # random norms amplify rounding


def logits(model):
    return logits_of(model, {"input_ids": IDS})


def test_every_layer_is_found_and_says_whose_keys_it_reads():
    blocks = hp.find_heads(build())
    assert [(b.layer, b.source, b.n_heads, b.queries_per_kv) for b in blocks] == [
        (layer, "found", 4, 2) for layer in range(5)
    ]
    assert [b.why_keep_groups for b in blocks] == [
        "",
        "model.layers.3.self_attn reads its keys and values",
        "model.layers.4.self_attn reads its keys and values",
        "it reads the keys and values of model.layers.1.self_attn",
        "it reads the keys and values of model.layers.2.self_attn",
    ]
    assert [bool(b.why_keep_one) for b in blocks] == [False, True, True, False, False]


def test_keys_that_are_read_stay_and_the_reader_is_named():
    model = build()
    for heads, message in (
        ({1: [0, 1]}, "layers.3.self_attn reads its keys"),
        ({2: range(4)}, "layers.4.self_attn reads its keys"),
        ({4: [2, 3]}, "the keys and values of.*layers.2"),
        ({1: [0, 1], 3: [0, 1]}, "layers.3.self_attn reads"),
    ):
        with unchanged(model), pytest.raises(ValueError, match=message):
            hp.prune_heads(model, heads)


@pytest.mark.parametrize("groups", in_tiers((2, 1, 4), {2}))
def test_what_an_order_removes_can_be_removed(groups):
    model = build(num_key_value_heads=groups)
    scores = hp.score_heads(model, [], "random")
    steps = removal_units(model, scores)
    n_parameters, n_bytes = parameters_cost(model), cache_cost(model, 2, 6)
    for n in (1, len(steps) // 2, len(steps)):
        mask = hp.head_mask(model, [head for step in steps[:n] for head in step])
        pruned = removed_as_masked(model, mask, logits, atol=1e-9)
        assert n_parameters(mask) == sum(p.numel() for p in pruned.parameters())
    assert n_bytes(mask) < n_bytes(hp.ones_mask(model))  # of the layer that shares nothing
    reading = hp.ones_mask(model)
    reading["self"][list(READERS)] = 0
    assert n_bytes(reading) == n_bytes(hp.ones_mask(model))  # they keep no keys of their own
    n_left = mask["self"].sum(1).tolist()
    assert [n_left[layer] for layer in (*FREE, *READERS)] == [0, 0, 0]
    assert all(n_left[layer] == groups for layer in MAKERS)
    assert hp.prune_mask(model, scores, 1.0)["self"].equal(mask["self"])


class Summary(nn.Module):
    """No attention: it adds the mean of another layer's values."""

    def forward(self, x, store):
        return store["values"].mean((1, 2), keepdim=True)[..., 0].expand_as(x)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (lambda: GroupedAttention("reads"), "layers.1 reads its keys and values"),
        (lambda: GroupedAttention("mixes"), "layers.1 reads its keys and values"),
        (Summary, "another part of the model reads its keys and values"),
        (lambda: GroupedAttention("own"), ""),
    ],
)
def test_who_reads_keys_is_seen_by_what_the_model_does(layer, reason):
    torch.manual_seed(0)
    model = GroupedModel(GroupedAttention("hands on"), layer(), GroupedAttention("own")).train()
    model.embedding.weight.requires_grad_(False)
    with unchanged(model):
        blocks = {block.path: block for block in hp.find_heads(model)}
    assert blocks["layers.0"].why_keep_groups == reason
    assert blocks["layers.2"].why_keep_groups == ""
    group, each = {0: [0, 1]}, {0: [0, 3]}
    if reason:
        with pytest.raises(ValueError, match=reason):
            hp.prune_heads(copy.deepcopy(model), group)
    for mask in (each,) if reason else (each, group):
        removed_as_masked(model, mask, lambda each: each(IDS))


def test_without_the_proof_any_layer_may_be_read():
    assert [block.why_keep_groups for block in hp.find_heads(build(), verify=False)] == [
        *["model.layers.3.self_attn (and 1 more) may read its keys and values"] * 3,
        *["it reads the keys and values of another layer"] * 2,
    ]
