"""What an old script of transformers computes: a gradient that is never set back to zero."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from headprune_lib.batching import Batch
from headprune_lib.criteria.gradients import mean_over_batches, of_mean_loss, one_batch
from headprune_lib.criteria.registry import Look, register_criterion
from headprune_lib.heads import HeadTensors
from headprune_lib.losses import Loss


@register_criterion(
    "importance-bertology",
    label="importance of the bertology script",
    variant="bertology",
    normalize="l2",
    formula=r"\frac{1}{n} \sum_{i=1}^{n} \left|\sum_{j \leq i} \frac{\partial}{\partial \xi_h} "
    r"\frac{1}{|B_j|} \sum_{x \in B_j} L(x)\right|",
    source="run_bertology.py of transformers up to version 4: sums of absolute running totals",
    look=Look("purple", ":"),
)
def importance_bertology(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
) -> HeadTensors:
    """Absolute running total of the batches' derivatives, mean over batches."""
    running: defaultdict[int, Tensor] = defaultdict(lambda: torch.zeros((), dtype=torch.float64))

    def reduce(gradient: Tensor, block: int) -> Tensor:
        running[block] = running[block] + of_mean_loss(gradient)
        return running[block].abs()

    return mean_over_batches(model, batches, loss, device, reduce, one_batch)
