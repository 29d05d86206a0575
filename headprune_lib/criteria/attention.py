"""Criteria that read attention weights, alone or together with importance."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headprune_lib.attention import (
    ENDS,
    Weights,
    attention_weights,
    entropies,
    greatest,
    read_weights,
    recorded_weights,
    special_ids,
)
from headprune_lib.criteria.gradient import check_some
from headprune_lib.criteria.registry import Sum, mean_over_batches, normalize_l2, register_criterion
from headprune_lib.discovery import find_heads
from headprune_lib.gradients import (
    check_examples_independent,
    gate_gradients,
    in_parts,
    prove_gradients,
)
from headprune_lib.losses import Loss
from headprune_lib.masking import HeadTensors
from headprune_lib.messages import unknown
from headprune_lib.specs import AttentionLayer
from headprune_lib.utils import Batch, Device, OomLimit, in_double

Among = Literal["kind", "model"]
Statistic = Callable[[Weights], tuple[Tensor, Tensor]]
"""Returns sums over queries and numbers of queries, (kept head,) each."""
_TIE = 1e-9


@register_criterion("confidence", weights=True, version=2)
def confidence(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: Device = None,
    leave_out: Collection[int] | None = None,
) -> HeadTensors:
    """Greatest attention weight of each query, end marks left out.

    Mean over real queries, 0 to 1 (Voita et al. 2019, section 4). It reads no labels.

    Args:
        leave_out: ids of tokens whose keys do not count, such as :func:`end_ids` of the tokenizer.
            By default the end mark and the separator that the model's configuration names, with a
            warning if it names neither (like BERT's).
    """
    ends = special_ids(model, ENDS) if leave_out is None else leave_out
    if leave_out is None and not ends and getattr(model, "main_input_name", "") == "input_ids":
        warnings.warn(
            "the model's configuration names no end mark and no separator, so attention to them "
            "counts. Give leave_out=end_ids(tokenizer), or leave_out=() to count it",
            stacklevel=3,
        )
    (means,) = means_over_queries(model, batches, [lambda w: greatest(w, ends)], device)
    return means


@register_criterion("entropy", weights=True)
def entropy(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: Device = None,
    leave_out: Collection[int] = (),
) -> HeadTensors:
    """Entropy of attention weights; heads attending widely are kept.

    Mean over real queries that see at least two keys of the entropy divided by the log of the number
    of visible keys, 0 to 1. A head that never sees two keys scores 0. It reads no labels.

    Args:
        leave_out: ids of tokens whose keys do not count, such as those of
            :func:`headprune_lib.attention.special_ids`.
    """
    (means,) = means_over_queries(model, batches, [lambda w: entropies(w, leave_out)], device)
    return means


@register_criterion("entropy-low", weights=True)
def entropy_low(model: nn.Module, batches: Iterable[Batch], **settings: Any) -> HeadTensors:
    """1 minus the entropy; heads that attend narrowly are kept.

    Arguments and errors are those of :func:`headprune_lib.criteria.attention.entropy`.
    """
    return {kind: 1 - values for kind, values in entropy(model, batches, **settings).items()}


def means_over_queries(
    model: nn.Module,
    batches: Iterable[Batch],
    statistics: Sequence[Statistic],
    device: Device = None,
) -> list[HeadTensors]:
    """Mean of each statistic, such as :func:`headprune_lib.attention.entropies`, in one pass.

    A head without queries to count gets 0.
    """
    blocks = find_heads(model)

    def sums_of(batch: Batch) -> Iterable[Sum]:
        return _over_queries(blocks, attention_weights(model, blocks, batch), statistics)

    return _apart(mean_over_batches(model, blocks, batches, device, sums_of))


def _apart(means: HeadTensors) -> list[HeadTensors]:
    """Split kind -> (quantity, layer, head) into one kind -> (layer, head) per quantity."""
    n = len(next(iter(means.values())))
    return [{kind: values[i] for kind, values in means.items()} for i in range(n)]


def _over_queries(
    blocks: Sequence[AttentionLayer],
    found: Iterable[tuple[int, Weights]],
    statistics: Sequence[Statistic],
) -> list[tuple[Tensor, Tensor]]:
    """Sums and counts of each statistic over a batch's queries, (statistic, kept head) a block."""
    sums: list[Any] = [torch.zeros(2, len(statistics), len(block.kept_heads)) for block in blocks]
    for number, weights in found:
        of_weights = torch.stack([torch.stack(of(weights)) for of in statistics], 1)
        sums[number] = sums[number].to(of_weights) + of_weights
    return [tuple(sums_and_counts) for sums_and_counts in sums]


@register_criterion("importance-entropy", weights=True)
def importance_entropy(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: Device = None,
    alpha: float = 0.5,
    low: bool = False,
    among: Among = "kind",
    leave_out: Collection[int] = (),
) -> HeadTensors:
    """Weighted mean of the ranks of importance and of entropy.

    Ranks are 0 (lowest) to 1, both from one pass over the batches: heads are kept that are
    important and attend widely, as a follow-up to the paper proposes.

    Args:
        alpha: the weight of importance, 0 to 1; 1 gives the order of importance normalised by
            layer, 0 that of entropy.
        low: rank by low entropy in place of high.
        among: rank heads among those of their kind, or of the whole model.
        leave_out: see :func:`headprune_lib.criteria.attention.entropy`.
    """
    if not isinstance(alpha, int | float) or not 0 <= alpha <= 1:
        raise ValueError(f"alpha is {alpha!r}. Give the weight of importance, a number from 0 to 1")
    if among not in ("kind", "model"):
        raise ValueError(unknown("among", among, ["kind", "model"]))
    important, wide = both(model, batches, loss=loss, device=device, leave_out=leave_out)
    if low:
        wide = {kind: -values for kind, values in wide.items()}
    return combined(alpha, important, wide, among)


@register_criterion("importance-times-entropy", normalize="l2", weights=True)
def importance_times_entropy(
    model: nn.Module, batches: Iterable[Batch], **settings: Any
) -> HeadTensors:
    """Importance (Eq. 2) times the entropy (0 to 1).

    Arguments are those of :func:`headprune_lib.criteria.attention.both`.
    """
    important, wide = both(model, batches, **settings)
    return {kind: values * wide[kind] for kind, values in important.items()}


@register_criterion("importance-times-focus", normalize="l2", weights=True)
def importance_times_focus(
    model: nn.Module, batches: Iterable[Batch], **settings: Any
) -> HeadTensors:
    """Importance (Eq. 2) times 1 minus the entropy.

    Arguments are those of :func:`headprune_lib.criteria.attention.both`.
    """
    important, wide = both(model, batches, **settings)
    return {kind: values * (1 - wide[kind]) for kind, values in important.items()}


def both(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: Device = None,
    leave_out: Collection[int] = (),
) -> tuple[HeadTensors, HeadTensors]:
    """Importance (Eq. 2, not normalised) and entropy of every head, from the same passes."""
    blocks, oom_limit = find_heads(model), OomLimit()

    def check(batch: Batch) -> None:
        check_examples_independent(model, batch, loss)
        prove_gradients(model, batch, blocks, loss)  # outside recorded_weights

    def of_part(part: Batch) -> list[Tensor]:
        with recorded_weights(model, blocks) as recorded:
            gradients = gate_gradients(model, part, blocks, loss, checked=False)
        weights = read_weights(blocks, recorded, part)
        entropy = _over_queries(blocks, weights, [lambda w: entropies(w, leave_out)])
        return gradients + [torch.cat(sums_and_counts)[None] for sums_and_counts in entropy]

    def sums_of(batch: Batch) -> Iterator[Sum]:
        of_parts = in_parts(model, batch, blocks, of_part, oom_limit)
        gradients, of_queries = of_parts[: len(blocks)], of_parts[len(blocks) :]
        for gradient, sums_and_counts in zip(gradients, of_queries, strict=True):
            importance = in_double(gradient).sum(1).abs().sum(0)
            entropy, queries = sums_and_counts.sum(0).to(importance)
            examples = torch.full_like(importance, len(gradient))
            yield torch.stack([importance, entropy]), torch.stack([examples, queries])

    means = mean_over_batches(model, blocks, batches, device, sums_of, check)
    important, wide = _apart(means)
    return check_some(model, blocks, important), wide


def combined(
    alpha: float, important: HeadTensors, wide: HeadTensors, among: Among = "kind"
) -> HeadTensors:
    """Weighted mean of the ranks of importance (passed unnormalised) and of entropy."""
    first, second = ranks(normalize_l2(important), among), ranks(wide, among)
    # of two heads with equal means the less important goes first, not the one in the lower layer
    return {kind: (alpha + _TIE) * first[kind] + (1 - alpha) * second[kind] for kind in first}


def ranks(scores: HeadTensors, among: Among = "kind") -> HeadTensors:
    """Ranks of the heads by score, 0 (lowest) to 1; equal scores share their mean rank.

    >>> ranks({"self": torch.tensor([[3.0, 1.0], [1.0, float("nan")]])})["self"].tolist()
    [[1.0, 0.25], [0.25, nan]]
    """
    if among == "kind":
        return {kind: _ranks(values) for kind, values in scores.items()}
    flat = _ranks(torch.cat([values.flatten() for values in scores.values()]))
    of_kinds = flat.split([values.numel() for values in scores.values()])
    return {kind: part.view_as(scores[kind]) for kind, part in zip(scores, of_kinds, strict=True)}


def _ranks(values: Tensor) -> Tensor:
    present = ~values.isnan()
    kept = values[present].double()
    below = (kept[:, None] > kept).sum(1) + ((kept[:, None] == kept).sum(1) - 1) / 2
    places = torch.full(values.shape, torch.nan, dtype=torch.float64)
    places[present] = below.double() / max(len(kept) - 1, 1)
    return places
