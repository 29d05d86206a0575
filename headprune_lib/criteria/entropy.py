"""How widely a head looks: the entropy of its attention weights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import torch
from torch import Tensor, nn

from headprune_lib.attention import Weights, attention_of
from headprune_lib.attention_statistics import entropies
from headprune_lib.batching import Batch
from headprune_lib.criteria.gradients import on_grid
from headprune_lib.criteria.registry import Look, register_criterion
from headprune_lib.heads import HeadTensors, find_heads
from headprune_lib.losses import Loss

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
