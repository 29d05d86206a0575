"""Whether a copy of a module without some heads returns what the module does with them masked."""

from __future__ import annotations

import copy

from torch import Tensor, nn

from headprune_lib.blocks import AttentionBlock
from headprune_lib.rehearsing import Ran, close, outputs_of, said, zeroed
from headprune_lib.slicing import keep_heads


def removal_problem(module: nn.Module, block: AttentionBlock, ran: Ran, kept: list[int]) -> str:
    """What is wrong with really removing heads; empty where it equals masking them."""
    gone = [head for head in range(block.n_heads) if head not in kept]
    with zeroed(module, block, gone):
        expected = outputs_of(module, ran)
    try:
        pruned = copy.deepcopy(module)
        keep_heads(pruned, block, kept)
        found = outputs_of(pruned, ran)
    except Exception as error:  # whatever the module's own code makes of it
        return f"its code does not run with fewer heads ({said(error)})"
    if not kept:  # there are no weights of attention to return
        expected = [expected[0], *(one for one in expected[1:] if not looks_like_weights(one))]
        found = [found[0], *(one for one in found[1:] if one.numel())]
        if len(found) < len(expected):
            return "with no head left it does not return what it hands on to other layers"
    if len(found) < len(expected) or found[0].shape != expected[0].shape:
        return "with a head removed it returns something of another shape"
    for left, right in zip(found, expected, strict=False):
        # weights of attention have fewer heads; a bias that is handed on must be that of all
        if left.shape != right.shape and not looks_like_weights(right):
            return "with a head removed it hands on something of another shape to other layers"
        if left.shape == right.shape and not close(left, right, right):
            return "with a head removed it returns something else than with that head masked"
    return ""


def group_problem(module: nn.Module, block: AttentionBlock, ran: Ran) -> str:
    """What is wrong where each group loses one of its heads and keeps its key and value head."""
    kept = [head for head in range(block.n_heads) if head % block.group != 1]
    return removal_problem(module, block, ran, kept) if block.group > 1 else ""


def looks_like_weights(returned: Tensor) -> bool:
    """Whether this is how much each query attends to each key: shares that sum to 1 at most.

    Less than 1 goes to the keys where a part goes to none of them (an attention sink), and nothing
    where a query sees no key.
    """
    if not returned.is_floating_point() or returned.ndim < 3:
        return False
    shares = returned.double().nan_to_num()
    return bool((shares >= 0).all() and (shares.sum(-1) <= 1 + 1e-3).all())
