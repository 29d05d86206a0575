"""A class that is not in the table can be taught; former names still work."""

import copy
import pickle
from operator import attrgetter

import pytest
import torch
from ownmodels import OwnAttention, OwnModel
from tiny import removed_as_masked

import headprune_lib
from headprune_lib import find_heads, head_importance, head_mask, register_attention
from headprune_lib.specs import ATTENTION_SPECS, FORMER, AttentionSpec

PARTS = {
    "query": "wq", "key": "wk", "value": "wv", "output": "wo", "n_heads": "n_heads",
    "head_dim": "head_size", "returns": 1,
}  # fmt: skip


def test_a_taught_class_is_masked_scored_and_removed(forget_taught):
    register_attention(OwnAttention, **PARTS)
    model, ids = OwnModel("", ""), torch.arange(15).view(3, 5)
    mask = head_mask(model, [(0, 1), *((1, head) for head in range(4))])
    pruned = removed_as_masked(model, mask, lambda each: each(ids))
    scores = head_importance(
        model, [{"input_ids": ids}], loss=lambda outputs, _batch: outputs.square().sum((1, 2))
    )
    assert scores["self"].shape == (2, 4) and (scores["self"] > 0).all()
    expected = pruned(ids)
    assert not torch.allclose(expected, model(ids))
    ATTENTION_SPECS.clear()  # as in another program, where the class was not registered
    for copied in (pruned, copy.deepcopy(pruned), pickle.loads(pickle.dumps(pruned))):
        assert torch.equal(copied(ids), expected)
        assert [block.kept_heads for block in find_heads(copied)] == [(0, 2, 3), ()]


THREE = {"query": "q", "key": "k", "value": "v", "output": "o"}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({**THREE, "output": ""}, "output is ''.*every attention module has one"),
        ({**THREE, "extra_projections": "positions"}, "Give a tuple"),
        ({"output": "o", "query": "q", "key": "k"}, "all three projections, or the fused one"),
        ({**THREE, "fused": "qkv"}, "all three projections, or the fused one"),
        ({"like": "BertAtention"}, "'BertAtention': did you mean BertAttention"),
    ],
)
def test_names_that_contradict_each_other_are_refused(names, message):
    with pytest.raises((ValueError, TypeError), match=message):
        register_attention("Half", **names)
    assert "Half" not in ATTENTION_SPECS


NAMES = {
    "cut_heads": "head_mask", "full_mask": "ones_mask", "prune_order": "rank_heads",
}  # fmt: skip


def test_former_names_work_and_warn(forget_taught):
    layer, spec = find_heads(OwnModel(""))[0], AttentionSpec(fused="qkv", output="o")
    parts, of_layer = (
        {old: new for old, new in FORMER.items() if hasattr(owner, new)} for owner in (spec, layer)
    )
    for owner, names in ((headprune_lib, NAMES), (layer, of_layer), (spec, parts)):
        for old, new in names.items():
            said = f"{old} is now called {new.rpartition('.')[2]}"
            with pytest.warns(DeprecationWarning, match=said):
                assert attrgetter(old)(owner) is attrgetter(new)(owner)
    with pytest.warns(DeprecationWarning, match="= is now called"):
        old = register_attention("Old", fused="qkv", output="o", **dict.fromkeys(parts, ()))
    new = register_attention("New", fused="qkv", output="o", **dict.fromkeys(parts.values(), ()))
    assert old == new
