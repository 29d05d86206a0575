"""Criteria that read attention weights, alone or with importance."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from headprune_lib.attention import (
    ENDS,
    Weights,
    attention_of,
    entropies,
    greatest,
    read_weights,
    recorded_weights,
    special_ids,
)
from headprune_lib.batching import Batch
from headprune_lib.criteria.registry import Look, normalize_l2, register_criterion
from headprune_lib.gradients import batch_gradients, check_apart, check_some, on_grid
from headprune_lib.heads import HeadTensors, find_heads
from headprune_lib.losses import Loss
from headprune_lib.messages import unknown


@register_criterion(
    "confidence",
    label="confidence",
    formula=r"\mathbb{E}_{x, q} \max_{k \neq \text{end}} a_{qk}",
    source="Voita et al. 2019, section 4: the mean of the maximal attention weight",
    look=Look("red", "--"),
    cost="a forward pass, eager",
    weights=True,
    version=2,
)
def confidence(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
    leave_out: Collection[int] | None = None,
) -> HeadTensors:
    """Mean over real queries of the greatest weight on a key other than an end mark, 0 to 1.

    Args:
        leave_out: ids of tokens whose keys do not count, such as :func:`end_ids` of the tokenizer;
            the end mark and the separator that the model's configuration names if not given, with a
            warning where it names neither, as BERT's does not.

    Raises:
        ValueError: no batches, or an attention kernel that makes no weights.
    """
    ends = special_ids(model, ENDS) if leave_out is None else leave_out
    if leave_out is None and not ends and getattr(model, "main_input_name", "") == "input_ids":
        warnings.warn(
            "the model's configuration names no end mark and no separator, so that weights on them "
            "count: give leave_out=end_ids(tokenizer), or leave_out=() if they are to count",
            stacklevel=3,
        )
    return mean_over_queries(model, batches, greatest, ends, device)


Statistic = Callable[[Weights, Collection[int]], tuple[Tensor, Tensor]]


@register_criterion(
    "entropy",
    label="attention entropy, high kept",
    formula=r"\mathbb{E}_{x, q} \frac{-\sum_k a_{qk} \log a_{qk}}{\log |K(q)|}",
    source="a follow-up to the paper, which asks for well-distributed attention in what is kept",
    look=Look("green", "--"),
    cost="a forward pass, eager",
    weights=True,
)
def entropy(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
    leave_out: Collection[int] = (),
) -> HeadTensors:
    """Mean over real queries of the entropy over the log of the number of keys seen, 0 to 1.

    A head that never has two keys to choose from scores 0. It reads no labels.

    Args:
        leave_out: ids of tokens whose keys do not count, such as those of
            :func:`headprune_lib.attention.special_ids`.

    Raises:
        ValueError: no batches, or an attention kernel that makes no weights.
    """
    return mean_over_queries(model, batches, entropies, leave_out, device)


def mean_over_queries(
    model: nn.Module,
    batches: Iterable[Batch],
    statistic: Statistic,
    leave_out: Collection[int],
    device: str | torch.device | None,
) -> HeadTensors:
    """A statistic's sums over its counts as scores; 0 where there was nothing to count."""
    (found,) = means_over_queries(
        model, batches, [lambda weights: statistic(weights, leave_out)], device
    )
    return found


def means_over_queries(
    model: nn.Module,
    batches: Iterable[Batch],
    statistics: Sequence[Callable[[Weights], tuple[Tensor, Tensor]]],
    device: str | torch.device | None = None,
) -> list[HeadTensors]:
    """Each statistic's :func:`mean_over_queries`, all from the same passes.

    Raises:
        ValueError: no batches, or an attention kernel that makes no weights.
    """
    blocks = find_heads(model)
    sums = [
        [torch.zeros(len(block.kept), dtype=torch.float64) for block in blocks] for _ in statistics
    ]
    counts = [[each.clone() for each in own] for own in sums]
    seen = False
    for _, number, weights in attention_of(model, batches, device=device):
        for statistic, total, n in zip(statistics, sums, counts, strict=True):
            found, queries = statistic(weights)
            total[number] += found.cpu()
            n[number] += queries.cpu()
        seen = True
    if not seen:
        raise ValueError("no batches given: what heads look at is a mean over at least one example")
    return [
        on_grid(model, blocks, [each / n.clamp(min=1) for each, n in zip(total, own, strict=True)])
        for total, own in zip(sums, counts, strict=True)
    ]


@register_criterion(
    "entropy-low",
    label="attention entropy, low kept",
    formula=r"1 - \mathbb{E}_{x, q} \frac{-\sum_k a_{qk} \log a_{qk}}{\log |K(q)|}",
    source="the opposite reading: heads that look at one place have found something",
    look=Look("orange", ":"),
    cost="a forward pass, eager",
    weights=True,
)
def entropy_low(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
    leave_out: Collection[int] = (),
) -> HeadTensors:
    """1 minus :func:`headprune_lib.criteria.attention.entropy`, with its arguments and errors."""
    scores = entropy(model, batches, device=device, leave_out=leave_out)
    return {kind: 1 - values for kind, values in scores.items()}


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
        leave_out: see :func:`headprune_lib.criteria.attention.entropy`.

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


@register_criterion(
    "importance-times-entropy",
    label="importance times entropy",
    normalize="l2",
    formula=r"I_h E_h",
    source="the product form of the follow-up's idea",
    look=Look("red", "--", "s"),
    cost="a forward and a backward pass, eager",
    weights=True,
)
def importance_times_entropy(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
    leave_out: Collection[int] = (),
) -> HeadTensors:
    """Eq. 2 times the entropy (0 to 1); see :mod:`headprune_lib.criteria.attention`."""
    important, entropy = both(model, batches, loss=loss, device=device, leave_out=leave_out)
    return {kind: values * entropy[kind] for kind, values in important.items()}


@register_criterion(
    "importance-times-focus",
    label="importance times (1 - entropy)",
    normalize="l2",
    formula=r"I_h (1 - E_h)",
    source="the opposite reading of the follow-up's idea",
    look=Look("red", ":"),
    cost="a forward and a backward pass, eager",
    weights=True,
)
def importance_times_focus(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
    leave_out: Collection[int] = (),
) -> HeadTensors:
    """Eq. 2 times 1 minus the entropy; see :mod:`headprune_lib.criteria.attention`."""
    important, entropy = both(model, batches, loss=loss, device=device, leave_out=leave_out)
    return {kind: values * (1 - entropy[kind]) for kind, values in important.items()}
