"""In which order heads go, and how many at each step."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import nn

from headprune_lib.heads import Head, HeadTensors, cut_heads, find_heads, full_mask, head_grid


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
    """The mask that cuts the first ``n_cut`` heads of ``order``.

    Raises:
        ValueError: a negative number, or more than the order has.
        IndexError: a head outside the model.
    """
    if not 0 <= n_cut <= len(order):
        raise ValueError(f"n_cut is {n_cut}; give 0 to {len(order)}, as many as the order has")
    return cut_heads(model, list(order[:n_cut]))


def check_scores(model: nn.Module, scores: HeadTensors, kinds: Sequence[str] | None = None) -> None:
    """Scores must be of this model, and say something of every head that is still there.

    Args:
        kinds: those that matter; all kinds if not given.

    Raises:
        ValueError: a kind missing or unknown, another shape than ``(layer, head)``, or NaN for a
            head that was not removed.
    """
    grid = head_grid(model)
    wanted = {kind: grid[kind] for kind in kinds or grid}
    found = {kind: tuple(values.shape) for kind, values in scores.items()}
    if found not in (wanted, grid):
        raise ValueError(
            f"scores of shape {found}, but {type(model).__name__} has {grid} as (layer, head): "
            "are they another model's?"
        )
    for block in find_heads(model):
        if block.kind not in wanted:
            continue
        row = scores[block.kind][block.layer]
        lost = [head for head in block.kept if row[head].isnan()]
        if lost:
            raise ValueError(
                f"the score of ({block.kind!r}, layer {block.layer}, head {lost[0]}) is NaN, which "
                "marks a head that was removed, and this one was not: was a loss infinite or NaN "
                "(float16, a row of padding alone)?"
            )


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
        ValueError: an amount outside 0 to 1, an unknown kind, or a negative ``keep_at_least``; scores
            of another shape than the model's heads, or NaN for a head that is still there.
    """
    blocks = find_heads(model)
    known = list(dict.fromkeys(block.kind for block in blocks))
    if not 0 <= amount <= 1:
        raise ValueError(f"amount is {amount}; give the share of heads to remove, 0 to 1")
    if unknown := sorted(set(kinds or ()) - set(known)):
        raise ValueError(f"no kind {unknown[0]!r} in {type(model).__name__}; it has {known}")
    if keep_at_least < 0:
        raise ValueError(f"keep_at_least is {keep_at_least}; give 0 or more heads a layer")
    check_scores(model, scores, kinds or known)
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
