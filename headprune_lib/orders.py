"""In which order heads go, and how many at each step."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import nn

from headprune_lib.heads import Head, HeadTensors, find_heads, full_mask


def prune_order(scores: HeadTensors) -> list[Head]:
    """Heads ``(kind, layer, head)`` from the least important to the most (paper, section 4).

    Ties keep the order of kind, layer, head. NaN marks a head that is no longer there: left out.
    """
    heads = [
        (value, (kind, layer, head))
        for kind, values in scores.items()
        for layer, row in enumerate(values.tolist())
        for head, value in enumerate(row)
        if not math.isnan(value)
    ]
    return [head for _, head in sorted(heads, key=lambda pair: pair[0])]


def prune_schedule(n_heads: int, steps: int = 10) -> list[int]:
    """How many heads are gone after each step: ``ceil(n i / steps)`` for i = 0 to ``steps``.

    >>> prune_schedule(72)
    [0, 8, 15, 22, 29, 36, 44, 51, 58, 65, 72]
    """
    return [-(-n_heads * i // steps) for i in range(steps + 1)]


def order_mask(model: nn.Module, order: Sequence[Head], n_cut: int) -> HeadTensors:
    """The mask that cuts the first ``n_cut`` heads of ``order``."""
    mask = full_mask(model)
    for kind, layer, head in order[:n_cut]:
        mask[kind][layer, head] = 0
    return mask


def prune_mask(
    model: nn.Module,
    scores: HeadTensors,
    amount: float,
    *,
    kinds: Sequence[str] | None = None,
    keep_at_least: int = 0,
) -> HeadTensors:
    """The mask that cuts the least important heads of a model, ready for removal.

    Heads that share a key and value head are ranked by their mean score and cut together.

    Args:
        scores: kind -> ``(layer, head)``, as :func:`headprune_lib.head_importance` gives them.
        amount: share of the heads still there that goes, 0 to 1; never more, and less where a
            group or ``keep_at_least`` does not allow it.
        kinds: only heads of these kinds go; all kinds if not given.
        keep_at_least: heads that every layer keeps.

    Raises:
        ValueError: an amount outside 0 to 1, an unknown kind, or a negative ``keep_at_least``.
    """
    blocks = find_heads(model)
    known = list(dict.fromkeys(block.kind for block in blocks))
    if not 0 <= amount <= 1:
        raise ValueError(f"amount is {amount}; give the share of heads to remove, 0 to 1")
    if unknown := sorted(set(kinds or ()) - set(known)):
        raise ValueError(f"no kind {unknown[0]!r} in {type(model).__name__}; it has {known}")
    if keep_at_least < 0:
        raise ValueError(f"keep_at_least is {keep_at_least}; give 0 or more heads a layer")
    blocks = [block for block in blocks if block.kind in (kinds or known)]
    mask, left = full_mask(model), {block: len(block.kept) for block in blocks}
    groups = [
        (block, block.kept[i : i + block.group])
        for block in blocks
        for i in range(0, len(block.kept), block.group)
    ]
    groups.sort(
        key=lambda pair: float(scores[pair[0].kind][pair[0].layer, list(pair[1])].double().mean())
    )
    budget = math.floor(amount * sum(left.values()) + 1e-9)
    for block, group in groups:
        if len(group) <= budget and left[block] - len(group) >= keep_at_least:
            mask[block.kind][block.layer, list(group)] = 0
            left[block] -= len(group)
            budget -= len(group)
    return mask
