"""Masks that do not fit are refused with what was given and what to do."""

import copy

import pytest
import torch
from tiny import build, same_weights
from torch import nn

from headprune_lib import cut_heads, find_heads, full_mask, masked_heads, prune_heads
from headprune_lib.architectures import UnknownArchitecture
from headprune_lib.heads import head_grid

BAD = [
    ({"self": torch.ones(3, 5)}, ValueError, r"shape \(3, 5\), expected .*\(3, 4\)"),
    ({"enc-enc": torch.ones(3, 4)}, ValueError, r"kinds \['enc-enc'\].*has \['self'\]"),
    ({}, ValueError, "full_mask"),
    ({"self": torch.ones(3, 4, dtype=torch.int64)}, TypeError, r"int64; convert .*bool"),
    ({"self": [[1] * 4] * 3}, TypeError, "given list"),
    (torch.ones(3, 4).tolist(), TypeError, "dict of kind"),
    ({"self": torch.full((3, 4), torch.nan)}, ValueError, r"\[0, 0\] is nan"),
]


@pytest.mark.parametrize(("mask", "error", "message"), BAD)
@pytest.mark.parametrize("use", [masked_heads, prune_heads])
def test_a_bad_mask_is_refused(mask, error, message, use):
    model = build()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(error, match=message), use(model, mask):
        pass
    assert same_weights(model, before)


def test_masks_and_the_grid_are_of_the_models_heads():
    model = build()
    mask = cut_heads(model, [("self", 1, 2)])
    assert mask["self"].sum() == 11 and mask["self"][1, 2] == 0
    assert head_grid(model) == {"self": (3, 4)}
    assert torch.equal(full_mask(model)["self"], torch.ones(3, 4))
    for head in [("self", 3, 0), ("self", 0, 4), ("self", -1, 0), ("dec-dec", 0, 0)]:
        with pytest.raises(IndexError, match=r"no head .*\(3, 4\).*counted from 0"):
            cut_heads(model, [head])


def test_a_model_without_known_attention_is_refused():
    with pytest.raises(UnknownArchitecture, match=r"MultiheadAttention.*Known:.*BertAttention"):
        find_heads(nn.TransformerEncoderLayer(8, 2))
    with pytest.raises(UnknownArchitecture, match="no module named like attention"):
        find_heads(nn.Linear(2, 2))
