"""Masks that leave every layer the same number of heads, which one number in a configuration says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headprune_lib.heads import HeadTensors, find_heads, full_mask
from headprune_lib.orders import (
    check_scores,
    go_together,
    kept_in_each,
    known_kinds,
    warn_of_less,
)
from headprune_lib.specs import AttentionBlock


def uniform_mask(
    model: nn.Module,
    scores: HeadTensors | Tensor,
    amount: float,
    *,
    kinds: Sequence[str] | None = None,
    keep_at_least: int = 1,
) -> HeadTensors:
    """The mask that keeps the best heads of each layer, as many in one layer as in the next.

    Unlike :func:`headprune_lib.prune_mask`, which ranks the heads of all layers together. What is
    left can be told to transformers by one number: see
    :func:`headprune_lib.export_transformers`. Heads that share a key and value head are
    ranked by their mean score and stay or go together. Layers that share one table of position
    biases, T5's, keep the same heads: those of the highest mean score over the layers.

    Args:
        scores: kind -> ``(layer, head)``, as :func:`headprune_lib.head_importance` gives them.
        amount: share of each layer's heads that goes, 0 to 1; never more, and less where a group or
            ``keep_at_least`` does not allow it. Where layers have different numbers of heads left,
            the share is of the fewest, and 0 makes them equal.
        kinds: only heads of these kinds go; all kinds if not given.
        keep_at_least: heads that every layer keeps; 1 or more.

    Warns:
        UserWarning: fewer heads of a layer go than ``amount`` asks for, or none; says why.

    Raises:
        ValueError: an amount outside 0 to 1, an unknown kind, ``keep_at_least`` below 1, a layer
            without heads; scores that do not fit, or NaN for a head that is still there.
    """
    blocks, known = find_heads(model), known_kinds(model, kinds)
    if not 0 <= amount <= 1:
        raise ValueError(f"amount is {amount}; give the share of heads to remove, 0 to 1")
    if keep_at_least < 1:
        raise ValueError(
            f"keep_at_least is {keep_at_least}; no configuration says 0 heads, so give 1 or more"
        )
    scores = check_scores(model, scores, kinds or known)
    alike: dict[tuple[str, int, int], list[AttentionBlock]] = {}
    for block in blocks:
        if block.kind in (kinds or known):
            alike.setdefault((block.kind, block.n_heads, block.width), []).append(block)
    mask = full_mask(model)
    for layers in alike.values():
        fewest = min(layers, key=lambda block: len(block.kept))
        n_groups = _groups_to_keep(fewest, amount, keep_at_least)
        n_heads, gone = len(fewest.kept), len(fewest.groups) - n_groups
        held = gone < _share(amount, len(fewest.groups))
        why = kept_in_each(keep_at_least) if held else go_together(fewest.group)
        warn_of_less(amount, n_heads, _share(amount, n_heads), gone * fewest.group, [why])
        if shares_biases(model, layers):
            _keep_the_same(mask, layers, scores, n_groups)
        else:
            for block in layers:
                values = {
                    group: float(scores[block.kind][block.layer, list(group)].double().mean())
                    for group in block.groups
                }
                best = sorted(values, key=lambda group: values[group], reverse=True)[:n_groups]
                _cut_all_but(mask, block, {head for group in best for head in group})
    return mask


def shares_biases(model: nn.Module, layers: Sequence[AttentionBlock]) -> bool:
    """Whether the position biases that one of these layers makes are used by the others too."""
    cores: list[Any] = [block.part(model, "core") for block in layers]
    having = [getattr(core, "has_relative_attention_bias", False) for core in cores]
    return any(having) and not all(having)


def _share(amount: float, n: int) -> int:
    return math.floor(amount * n + 1e-9)


def _groups_to_keep(fewest: AttentionBlock, amount: float, keep_at_least: int) -> int:
    if not fewest.kept:
        raise ValueError(
            f"{fewest.path} has no heads left, and no configuration says 0 heads: prune the "
            "unpruned model again, with at least one head in every layer"
        )
    n_groups, group = len(fewest.groups), fewest.group
    left = n_groups - _share(amount, n_groups)
    return min(n_groups, max(left, -(-keep_at_least // group)))


def _keep_the_same(
    mask: HeadTensors, layers: Sequence[AttentionBlock], scores: HeadTensors, n_heads: int
) -> None:
    everywhere = sorted(set.intersection(*(set(block.kept) for block in layers)))
    if len(everywhere) < n_heads:
        raise ValueError(
            f"the layers of {layers[0].kind!r} share one table of position biases and must keep "
            f"the same heads, but only {everywhere} are left in all of them: prune the unpruned "
            "model again with --uniform (uniform_mask)"
        )
    rows = [scores[block.kind][block.layer, everywhere].double() for block in layers]
    best = torch.stack(rows).mean(0).argsort(descending=True, stable=True)[:n_heads]
    for block in layers:
        _cut_all_but(mask, block, {everywhere[place] for place in best.tolist()})


def _cut_all_but(mask: HeadTensors, block: AttentionBlock, keep: set[int]) -> None:
    mask[block.kind][block.layer, [head for head in block.kept if head not in keep]] = 0
