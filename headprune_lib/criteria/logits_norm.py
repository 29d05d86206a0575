"""The norm of the logits in place of the loss: needs no labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from headprune_lib.batching import NO_LABEL, Batch
from headprune_lib.criteria.gradients import mean_over_batches
from headprune_lib.criteria.registry import Look, register_criterion
from headprune_lib.heads import HeadTensors
from headprune_lib.losses import Loss


@register_criterion(
    "logits-norm",
    label="norm of the logits",
    formula=r"\mathbb{E}_x \left|\frac{\partial \|z(x)\|_2}{\partial \xi_h}\right|",
    source="Guo et al. 2026 (Greedy-Gnorm), whose code calls it Taylor importance",
    look=Look("green", "-."),
)
def logits_norm(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
) -> HeadTensors:
    """Absolute derivative of the logits' l2 norm, mean over examples; it ignores labels.

    Raises:
        ValueError: a loss of one's own, which would not be used.
    """
    if loss is not None:
        raise ValueError(
            "logits-norm derives the norm of the logits and uses no loss: leave it out"
        )
    return mean_over_batches(
        model,
        batches,
        _norm,
        device,
        lambda gradient, _: gradient.sum(1).abs().sum(0),
        lambda _batch, gradient, _kind: len(gradient),
    )


def _norm(outputs: Any, batch: Batch) -> Tensor:
    """(batch, …, class) -> (batch,); of a model with logits at each position, the labelled ones."""
    logits = outputs.logits
    labels = batch.get("labels")
    if labels is not None and labels.shape == logits.shape[:-1] and labels.ndim > 1:
        logits = logits * (labels != NO_LABEL)[..., None]
    return logits.flatten(1).norm(dim=1)
