"""The derivative in the gates, integrated while all of them are opened together."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from headprune_lib.batching import Batch
from headprune_lib.criteria.example_losses import check_apart
from headprune_lib.criteria.gradients import batch_gradients, check_some, on_grid
from headprune_lib.criteria.registry import Look, register_criterion
from headprune_lib.heads import HeadTensors, find_heads, full_mask
from headprune_lib.losses import Loss
from headprune_lib.masking import masked_heads


@register_criterion(
    "importance-integrated",
    label="importance integrated over the mask",
    formula=r"\mathbb{E}_x \left|\int_0^1 \frac{\partial L(x)}{\partial \xi_h}"
    r"\bigg|_{\xi = \alpha \mathbf{1}} d\alpha\right|",
    source="integrated gradients (Sundararajan et al. 2017) in the gates, from all closed to all open",
    look=Look("purple", "--", "^"),
    cost="8 forward and backward passes",
)
def importance_integrated(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
    steps: int = 8,
) -> HeadTensors:
    """Absolute integral of each example's derivative, mean over examples, in nats.

    Over all heads the integrals sum to the loss with no head minus the loss with all of them. The
    midpoint rule takes ``steps`` passes of what :func:`headprune_lib.head_importance` takes one.

    Raises:
        ValueError: no batches, or fewer steps than 1.
    """
    if steps < 1:
        raise ValueError(f"steps is {steps}; the integral needs at least 1")
    blocks, count = find_heads(model), 0
    totals = [torch.zeros(len(block.kept), dtype=torch.float64) for block in blocks]
    for batch in batches:
        integrals = [torch.zeros(()) for _ in blocks]
        for step in range(steps):
            at = (step + 0.5) / steps
            mask = {kind: at * ones for kind, ones in full_mask(model).items()}
            with masked_heads(model, mask):
                ((moved, gradients),) = batch_gradients(model, [batch], blocks, loss, device)
            if not count and not step:
                check_apart(model, moved, loss)
            # a gate's derivative is that of its factor, which multiplies what is already scaled
            integrals = [
                total + gradient.sum(1).double().cpu() / at / steps
                for total, gradient in zip(integrals, gradients, strict=True)
            ]
        count += len(integrals[0])
        totals = [total + each.abs().sum(0) for total, each in zip(totals, integrals, strict=True)]
    if not count:
        raise ValueError("no batches given: importance is a mean over at least one example")
    check_some(model, blocks, totals)
    return on_grid(model, blocks, [total / count for total in totals])
