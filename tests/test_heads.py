"""Masks that do not fit are refused with what was given and what to do."""

import pytest
import torch
from tiny import build
from torch import nn

from headprune_lib import cut_heads, find_heads, full_mask, masked_heads, prune_heads
from headprune_lib.architectures import UnknownArchitecture
from headprune_lib.heads import head_grid


@pytest.fixture(scope="module")
def model():
    return build()


BAD = [
    (lambda m: {"self": torch.ones(3, 5)}, ValueError, r"shape \(3, 5\), expected .*\(3, 4\)"),
    (lambda m: {"enc-enc": torch.ones(3, 4)}, ValueError, r"kinds \['enc-enc'\].*has \['self'\]"),
    (lambda m: {}, ValueError, "full_mask"),
    (lambda m: {"self": torch.ones(3, 4, dtype=torch.int64)}, TypeError, r"int64; convert .*bool"),
    (lambda m: {"self": [[1] * 4] * 3}, TypeError, "given list"),
    (lambda m: torch.ones(3, 4).tolist(), TypeError, "dict of kind"),
    (
        lambda m: {"self": torch.tensor([[1, 1, 1, 1], [1, float("nan"), 1, 1], [1] * 4])},
        ValueError,
        r"\[1, 1\] is nan",
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), BAD)
@pytest.mark.parametrize("use", [masked_heads, prune_heads])
def test_a_bad_mask_is_refused(model, make, error, message, use):
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(error, match=message), use(model, make(model)):
        pass
    assert all(torch.equal(weights[n], t) for n, t in model.state_dict().items())


def test_a_head_out_of_range_is_refused(model):
    for head in [("self", 3, 0), ("self", 0, 4), ("self", -1, 0), ("dec-dec", 0, 0)]:
        with pytest.raises(IndexError, match=r"no head .*\(3, 4\).*counted from 0"):
            cut_heads(model, [head])


def test_a_model_without_known_attention_is_refused():
    with pytest.raises(UnknownArchitecture, match=r"MultiheadAttention.*Known:.*BertAttention"):
        find_heads(nn.TransformerEncoderLayer(8, 2))
    with pytest.raises(UnknownArchitecture, match="no module named like attention"):
        find_heads(nn.Linear(2, 2))


def test_cut_heads_and_grid(model):
    mask = cut_heads(model, [("self", 1, 2)])
    assert mask["self"].sum() == 11 and mask["self"][1, 2] == 0
    assert head_grid(model) == {"self": (3, 4)}
    assert torch.equal(full_mask(model)["self"], torch.ones(3, 4))
