"""Importance and attention entropy together, as a follow-up to the paper proposes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

import torch
from torch import nn

from headprune_lib.attention import read_weights, recorded_weights
from headprune_lib.attention_statistics import entropies
from headprune_lib.batching import Batch
from headprune_lib.criteria.example_losses import check_apart
from headprune_lib.criteria.gradients import batch_gradients, check_some, on_grid
from headprune_lib.criteria.registry import Look, normalize_l2, register_criterion
from headprune_lib.heads import HeadTensors, find_heads
from headprune_lib.losses import Loss
from headprune_lib.messages import unknown

Among = Literal["kind", "model"]
_TIE = 1e-9


@register_criterion(
    "importance-entropy",
    label="importance and entropy",
    formula=r"\alpha \, \mathrm{rank}(I_h) + (1 - \alpha) \, \mathrm{rank}(E_h)",
    source="a follow-up to the paper: what is kept is to be important and to look widely",
    look=Look("red", "-"),
    cost="a forward and a backward pass, eager",
    weights=True,
)
def importance_entropy(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
    alpha: float = 0.5,
    low: bool = False,
    among: Among = "kind",
    leave_out: Collection[int] = (),
) -> HeadTensors:
    """A weighted mean of two ranks, 0 (lowest) to 1, in one pass over the batches.

    Args:
        alpha: the weight of importance, 0 to 1; 1 gives the order of importance normalised by
            layer, 0 that of entropy.
        low: rank by low entropy in place of high.
        among: heads are ranked among those of their kind, or of the whole model.
        leave_out: see :func:`headprune_lib.criteria.entropy.entropy`.

    Raises:
        ValueError: an alpha outside 0 to 1, an unknown ``among``, no batches, or an attention
            kernel that makes no weights.
    """
    if not isinstance(alpha, int | float) or not 0 <= alpha <= 1:
        raise ValueError(f"alpha is {alpha!r}; give the weight of importance, a number from 0 to 1")
    if among not in ("kind", "model"):
        raise ValueError(unknown("among", among, ["kind", "model"]))
    important, entropy = both(model, batches, loss=loss, device=device, leave_out=leave_out)
    if low:
        entropy = {kind: -values for kind, values in entropy.items()}
    return combined(alpha, important, entropy, among)


def combined(
    alpha: float, important: HeadTensors, entropy: HeadTensors, among: Among = "kind"
) -> HeadTensors:
    """The weighted mean of the ranks of importance, not normalised as given, and of entropy."""
    one, other = ranks(normalize_l2(important), among), ranks(entropy, among)
    # of two heads with one mean the less important goes first, not the one in the lower layer
    return {kind: (alpha + _TIE) * one[kind] + (1 - alpha) * other[kind] for kind in one}


def both(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
    leave_out: Collection[int] = (),
) -> tuple[HeadTensors, HeadTensors]:
    """Importance (Eq. 2, not normalised) and entropy of every head, from the same passes.

    Raises:
        ValueError: see :func:`importance_entropy`.
    """
    blocks, count = find_heads(model), 0
    important, entropy, queries = (
        [torch.zeros(len(block.kept), dtype=torch.float64) for block in blocks] for _ in range(3)
    )
    for batch in batches:
        if not count:  # refused, or held against finite differences, before weights are noted
            next(batch_gradients(model, [batch], blocks, loss, device))
        with recorded_weights(model, blocks) as found:
            ((moved, gradients),) = batch_gradients(model, [batch], blocks, loss, device)
        if not count:
            check_apart(model, moved, loss)
        count += len(gradients[0])
        for total, gradient in zip(important, gradients, strict=True):
            total += gradient.sum(1).abs().sum(0).double().cpu()
        for number, weights in read_weights(blocks, found, moved):
            sums, counted = entropies(weights, leave_out)
            entropy[number] += sums.cpu()
            queries[number] += counted.cpu()
    if not count:
        raise ValueError("no batches given: head importance is a mean over at least one example")
    check_some(model, blocks, important)
    means = [each / n.clamp(min=1) for each, n in zip(entropy, queries, strict=True)]
    return (
        on_grid(model, blocks, [each / count for each in important]),
        on_grid(model, blocks, means),
    )


def ranks(scores: HeadTensors, among: Among = "kind") -> HeadTensors:
    """Places of the heads in order of score, 0 (lowest) to 1; equal scores share their mean place.

    >>> ranks({"self": torch.tensor([[3.0, 1.0], [1.0, float("nan")]])})["self"].tolist()
    [[1.0, 0.25], [0.25, nan]]
    """
    if among == "kind" or len(scores) == 1:
        return {kind: _ranks(values) for kind, values in scores.items()}
    flat = _ranks(torch.cat([values.flatten() for values in scores.values()]))
    pieces = flat.split([values.numel() for values in scores.values()])
    return {kind: piece.view_as(scores[kind]) for kind, piece in zip(scores, pieces, strict=True)}


def _ranks(values: torch.Tensor) -> torch.Tensor:
    there = ~values.isnan()
    own = values[there].double()
    below = (own[:, None] > own).sum(1) + ((own[:, None] == own).sum(1) - 1) / 2
    found = torch.full(values.shape, torch.nan, dtype=torch.float64)
    found[there] = below.double() / max(len(own) - 1, 1)
    return found
