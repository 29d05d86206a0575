"""Eq. 2 with the absolute value taken of a batch's mean loss, where derivatives cancel."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from headprune_lib.batching import Batch
from headprune_lib.criteria.gradients import mean_over_batches, of_mean_loss, one_batch
from headprune_lib.criteria.registry import Look, register_criterion
from headprune_lib.heads import HeadTensors
from headprune_lib.losses import Loss


@register_criterion(
    "importance-batch",
    label="importance a batch",
    variant="batch",
    normalize="l2",
    formula=r"\mathbb{E}_B \left|\frac{\partial}{\partial \xi_h} "
    r"\frac{1}{|B|} \sum_{x \in B} L(x)\right|",
    source="scripts that take the gradient of a batch's mean loss: it depends on the batch size",
    look=Look("purple", "-."),
)
def importance_batch(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
) -> HeadTensors:
    """Absolute derivative of each batch's mean loss, mean over batches."""
    return mean_over_batches(
        model, batches, loss, device, lambda gradient, _: of_mean_loss(gradient).abs(), one_batch
    )
