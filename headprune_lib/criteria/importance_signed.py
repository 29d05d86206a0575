"""The derivative of the loss in a head's gate with its sign: what removal costs, to first order."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from headprune_lib.batching import Batch
from headprune_lib.criteria.gradients import mean_over_batches
from headprune_lib.criteria.registry import Look, register_criterion
from headprune_lib.heads import HeadTensors
from headprune_lib.losses import Loss


@register_criterion(
    "importance-signed",
    label="importance with its sign",
    formula=r"-\mathbb{E}_x \frac{\partial L(x)}{\partial \xi_h}",
    source="Eq. 2 without the absolute value; Molchanov et al. 2017 explain why it is taken",
    look=Look("blue", "-."),
)
def importance_signed(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
) -> HeadTensors:
    """Minus the derivative, mean over examples, in nats; it does not depend on the batch size.

    Closing a gate from 1 to 0 adds this much to the loss, to first order. A head that does harm
    scores below 0 and goes first; one that helps some examples as much as it harms others scores 0.
    """
    return mean_over_batches(
        model,
        batches,
        loss,
        device,
        lambda gradient, _: -gradient.sum((0, 1)),
        lambda _batch, gradient, _kind: len(gradient),
    )
