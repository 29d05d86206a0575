"""From scores to an order, and from an order to a mask, over all layers or equal in each layer."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from numbers import Real
from operator import itemgetter
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from headprune_lib.discovery import find_heads
from headprune_lib.masking import (
    Head,
    HeadTensors,
    check_scores,
    ones_mask,
    ones_of,
    shapes_of,
    without_heads,
)
from headprune_lib.specs import AttentionLayer


def rank_heads(scores: HeadTensors) -> list[Head]:
    """Heads ``(kind, layer, head)`` from the least important to the most (paper, section 4).

    Ties keep the order of kind, layer, head. Removed heads, whose scores are NaN, are left out.
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
    """Numbers of heads removed after each step: ``ceil(n i / steps)`` for i = 0 to ``steps``.

    >>> prune_schedule(72)
    [0, 8, 15, 22, 29, 36, 44, 51, 58, 65, 72]
    """
    return [-(-n_heads * i // steps) for i in range(steps + 1)]


def order_mask(model: nn.Module, order: Sequence[Head], n_cut: int) -> HeadTensors:
    """The mask that cuts the first ``n_cut`` heads of ``order``.

    Raises:
        ValueError: a negative number, or more heads than the order has.
        IndexError: a head outside the model.
    """
    return order_masks(model, order, [n_cut])[0]


def order_masks(
    model: nn.Module, order: Sequence[Head], n_cuts: Iterable[int]
) -> list[HeadTensors]:
    """:func:`order_mask` for each number of heads, with the model examined only once."""
    full, masks = ones_mask(model), []
    for n_cut in n_cuts:
        if not 0 <= n_cut <= len(order):
            raise ValueError(f"n_cut is {n_cut}. Give 0 to {len(order)}, the length of the order")
        masks.append(without_heads(full, order[:n_cut]))
    return masks


def _of_kinds(
    blocks: Sequence[AttentionLayer], model: nn.Module, kinds: Sequence[str] | None
) -> list[AttentionLayer]:
    """The blocks of some kinds, or of all if not given; ValueError for a kind not in the model."""
    known = list(shapes_of(blocks))
    if unknown := sorted(set(kinds or ()) - set(known)):
        raise ValueError(f"{type(model).__name__} has no kind {unknown[0]!r}. Give any of {known}")
    return [block for block in blocks if block.kind in (kinds or known)]


GroupScore = Literal["mean", "sum"]
Step = list[Head]
"""Heads that can only be removed together."""


def removal_units(
    model: nn.Module,
    scores: HeadTensors | Tensor,
    *,
    kinds: Sequence[str] | None = None,
    keep_at_least: int = 0,
    per_group: bool = False,
    group_score: GroupScore = "mean",
    blocks: Sequence[AttentionLayer] | None = None,
) -> list[Step]:
    """List the steps of heads that can be removed, the least important first.

    Any number of first steps can be removed together. A head is a step of its own, unless it shares
    a key and value head with others: then all of these are one step, or with ``per_group`` the
    least important remaining head of each group in the layer. The latter always applies where
    another layer reads the keys and values. Heads that :func:`headprune_lib.find_heads` found to be
    maskable only are left out, and so is the last step of a layer that cannot lose all its heads.

    Args:
        scores: kind -> ``(layer, head)``, as :func:`headprune_lib.head_importance` returns them;
            for a model with one kind, the tensor alone will do.
        kinds: kinds whose heads may be removed; all if not given.
        keep_at_least: number of heads that every layer keeps.
        per_group: take equally many heads of each group, so that key and value heads stay until the
            layer's last heads are removed; with multi-query attention, one head at a time.
        group_score: how to rank a step, by the ``"mean"`` or the ``"sum"`` of its heads' scores.
        blocks: the result of ``find_heads(model)``, if it is known already.

    Raises:
        ValueError: an unknown kind or ``group_score``, a negative ``keep_at_least``; scores of a
            shape other than the model's, or NaN for an existing head; ``per_group`` where
            heads can only be removed in whole groups.
    """
    every = find_heads(model) if blocks is None else blocks
    blocks = _of_kinds(every, model, kinds)
    if keep_at_least < 0:
        raise ValueError(f"keep_at_least is {keep_at_least}. Give 0 or more heads per layer")
    if group_score not in get_args(GroupScore):
        raise ValueError(f"group_score is {group_score!r}. Give 'mean' or 'sum'")
    scores = check_scores(model, scores, every, kinds)
    ranked: list[tuple[float, Step]] = []
    for block in blocks:
        if block.why_not_prunable or not block.kept_heads:
            continue
        row = scores[block.kind][block.layer].double()
        even = block.why_keep_groups or (per_group and block.queries_per_kv > 1)
        units = _one_of_each_group(block, row) if even else block.groups
        steps = []
        for heads in units:
            values = row[list(heads)]
            value = float(values.mean() if group_score == "mean" else values.sum())
            steps.append((value, [(block.kind, block.layer, head) for head in heads]))
        least = max(keep_at_least, 1 if block.why_keep_one else 0)
        n = max(0, len(block.kept_heads) - least) // len(units[0])  # all units are of one size
        ranked += sorted(steps, key=itemgetter(0))[:n]
    return [step for _, step in sorted(ranked, key=itemgetter(0))]


def _one_of_each_group(block: AttentionLayer, row: Tensor) -> list[tuple[int, ...]]:
    """The lowest head of each group, then the second lowest of each, and so on."""
    if block.why_whole_groups:
        raise ValueError(
            f"{block.path}: heads that share a key and value head can only be removed "
            f"together ({block.why_whole_groups}). Leave per_group out"
        )
    ordered = [sorted(group, key=lambda head: float(row[head])) for group in block.groups]
    return list(zip(*ordered, strict=True))


def prune_mask(
    model: nn.Module,
    scores: HeadTensors | Tensor,
    amount: float,
    *,
    kinds: Sequence[str] | None = None,
    keep_at_least: int = 0,
    per_group: bool = False,
    group_score: GroupScore = "mean",
) -> HeadTensors:
    """The mask that cuts the least important heads of a model, ready for removal.

    For bounds other than a share of heads, see ``headprune_lib.budgets``.

    Args:
        scores, kinds, keep_at_least, per_group, group_score: as in
            :func:`headprune_lib.selection.removal_units`.
        amount: share of the remaining heads to remove, 0 to 1; never more, and less where groups,
            ``keep_at_least`` or heads that cannot be removed require it.

    Warns:
        UserWarning: fewer heads are removed than ``amount`` asks for; says why.

    Raises:
        TypeError: an amount that is not a number.
        ValueError: an amount outside 0 to 1, and what :func:`headprune_lib.selection.removal_units`
            raises.
    """
    _check_amount(amount)
    every = find_heads(model)
    steps = removal_units(
        model, scores, kinds=kinds, keep_at_least=keep_at_least, per_group=per_group,
        group_score=group_score, blocks=every,
    )  # fmt: skip
    blocks = _of_kinds(every, model, kinds)
    n_heads = sum(len(block.kept_heads) for block in blocks)
    budget = _share(amount, n_heads)
    cut: list[Head] = []
    for step in steps:  # skip a step that is too large: smaller ones may still fit
        if len(cut) + len(step) <= budget:
            cut += step
    why = []
    if len(cut) == sum(map(len, steps)):
        for block in blocks:
            if block.why_not_prunable:
                why.append(f"heads can only be masked ({block.why_not_prunable})")
            elif block.why_keep_one:
                why.append(f"a layer cannot lose all its heads ({block.why_keep_one})")
        why += [_kept_in_each(keep_at_least)] if keep_at_least else []
    shared = [block for block in blocks if block.queries_per_kv > 1]
    sizes = [len(block.groups) if per_group else block.queries_per_kv for block in shared]
    together = max(map(len, steps), default=max(sizes, default=1))
    if keep_at_least % together or not why:
        why.append(_go_together(together, per_group))
    _warn_of_less(amount, n_heads, budget, len(cut), why)
    return without_heads(ones_of(every), cut)


def uniform_mask(
    model: nn.Module,
    scores: HeadTensors | Tensor,
    amount: float,
    *,
    kinds: Sequence[str] | None = None,
    keep_at_least: int = 1,
) -> HeadTensors:
    """The mask that keeps the best heads of each layer, equally many in every layer.

    By contrast, :func:`headprune_lib.prune_mask` ranks the heads of all layers together. A single
    number of heads describes the result to transformers: see
    :func:`headprune_lib.export_transformers`. Heads that share a key and value head are ranked by
    their mean score and kept or removed together. Layers that share one table of position biases,
    as in T5, keep the same heads: those with the highest mean score over the layers.

    Args:
        scores: kind -> ``(layer, head)``, as :func:`headprune_lib.head_importance` returns them.
        amount: share of each layer's heads to remove, 0 to 1; never more, and less where a group or
            ``keep_at_least`` requires it. Where layers have different numbers of heads left, it is
            a share of the smallest number, and 0 makes the layers equal.
        kinds: kinds whose heads may be removed; all if not given.
        keep_at_least: number of heads that every layer keeps; 1 or more.

    Warns:
        UserWarning: a layer loses fewer heads than ``amount`` asks for, or none; says why.

    Raises:
        TypeError: an amount that is not a number.
        ValueError: an amount outside 0 to 1, an unknown kind, ``keep_at_least`` below 1, a layer
            without heads; scores that do not fit, or NaN for an existing head.
    """
    every = find_heads(model)
    blocks = _of_kinds(every, model, kinds)
    _check_amount(amount)
    if keep_at_least < 1:
        raise ValueError(f"keep_at_least is {keep_at_least}. Give 1 or more heads per layer")
    scores = check_scores(model, scores, every, kinds)
    alike: dict[tuple[str, int, int], list[AttentionLayer]] = {}
    for block in blocks:
        alike.setdefault((block.kind, block.n_heads, block.head_dim), []).append(block)
    cut: list[Head] = []
    for layers in alike.values():
        fewest = min(layers, key=lambda block: len(block.kept_heads))
        if not fewest.kept_heads:
            raise ValueError(
                f"{fewest.path} has no heads left, and no configuration can say so. Prune the "
                "unpruned model again, with at least one head in every layer"
            )
        n_groups, n_heads, size = len(fewest.groups), len(fewest.kept_heads), fewest.queries_per_kv
        asked = _share(amount, n_groups)
        gone = min(asked, max(0, n_groups + -keep_at_least // size))
        why = _kept_in_each(keep_at_least) if gone < asked else _go_together(size)
        _warn_of_less(amount, n_heads, _share(amount, n_heads), gone * size, [why])
        together = [layers] if shares_biases(model, layers) else [[block] for block in layers]
        for same in together:
            keep = _best_groups(same, scores, n_groups - gone)
            cut += [(b.kind, b.layer, h) for b in same for h in b.kept_heads if h not in keep]
    return without_heads(ones_of(every), cut)


def _best_groups(layers: Sequence[AttentionLayer], scores: HeadTensors, n_groups: int) -> set[int]:
    """The heads of the groups with the highest mean score, the same in all of these layers."""
    groups = [group for group in layers[0].groups if all(group in b.groups for b in layers)]
    if len(layers) > 1 and len(groups) < n_groups:
        raise ValueError(
            f"the layers of {layers[0].kind!r} share one table of position biases and must keep the "
            f"same heads, but only {[head for group in groups for head in group]} are left in all of "
            "them. Prune the unpruned model again with --uniform (uniform_mask)"
        )

    def mean(group: Sequence[int]) -> float:
        rows = [scores[b.kind][b.layer, list(group)].double() for b in layers]
        return float(torch.stack(rows).mean())

    best = sorted(groups, key=mean, reverse=True)[:n_groups]
    return {head for group in best for head in group}


def shares_biases(model: nn.Module, layers: Sequence[AttentionLayer]) -> bool:
    """Whether the position biases that one of these layers makes are used by the others too."""
    cores: list[Any] = [block.part(model, "core") for block in layers]
    having = [getattr(core, "has_relative_attention_bias", False) for core in cores]
    return any(having) and not all(having)


def _check_amount(amount: float) -> None:
    if isinstance(amount, bool) or not isinstance(amount, Real):
        raise TypeError(f"amount is {amount!r}. Give a number, the share of heads to remove")
    if not 0 <= amount <= 1:
        raise ValueError(f"amount is {amount}. Give the share of heads to remove, 0 to 1")


def _share(amount: float, n: int) -> int:
    return math.floor(amount * n + 1e-9)


def _go_together(n: int, per_group: bool = False) -> str:
    if per_group:
        return f"each group loses equally many heads, {n} of a layer together (per_group)"
    return f"heads that share a key and value head are removed together, {n} at a time"


def _kept_in_each(n: int) -> str:
    return f"each layer keeps {n} (keep_at_least)"


def _warn_of_less(amount: float, n_heads: int, asked: int, gone: int, reasons: list[str]) -> None:
    """Warn where fewer heads are removed than a share of ``n_heads`` asks for."""
    if amount and not asked:
        message = f"amount {amount:g} of {n_heads} heads is less than one, so none is removed"
    elif gone < asked:
        why = "; ".join(dict.fromkeys(reasons))
        message = (
            f"amount {amount:g} asks for {asked} of {n_heads} heads, but {gone} can be removed: "
            f"{why}"
        )
    else:
        return
    warnings.warn(message, stacklevel=3)
