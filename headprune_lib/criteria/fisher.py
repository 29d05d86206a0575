"""The empirical Fisher information of a head's gate: squared derivatives."""

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
    "fisher",
    label="Fisher information",
    variant="fisher",
    formula=r"\mathbb{E}_B \left(\frac{\partial}{\partial \xi_h} "
    r"\frac{1}{|B|} \sum_{x \in B} L(x)\right)^2",
    source="Kwon et al. 2022, whose code squares the gradient of each batch's mean loss; "
    "it depends on the batch size",
    look=Look("brown", "-"),
)
def fisher(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
) -> HeadTensors:
    """Squared derivative of each batch's mean loss, mean over batches; in squared nats."""
    return mean_over_batches(
        model, batches, loss, device, lambda gradient, _: of_mean_loss(gradient).square(), one_batch
    )
