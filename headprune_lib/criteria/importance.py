"""Importance: expected sensitivity of the loss to a head's gate (paper, Eq. 2)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from headprune_lib.batching import Batch
from headprune_lib.criteria.example_losses import check_apart
from headprune_lib.criteria.gradients import batch_gradients, mean_over_batches, on_grid
from headprune_lib.criteria.registry import Look, register_criterion
from headprune_lib.heads import HeadTensors, find_heads
from headprune_lib.losses import Loss


@register_criterion(
    "importance",
    label="importance, Eq. 2",
    variant="example",
    normalize="l2",
    formula=r"I_h = \mathbb{E}_x \left|\frac{\partial L(x)}{\partial \xi_h}\right|",
    source="Michel, Levy & Neubig 2019, Eq. 2: absolute value of each example's derivative",
    look=Look("blue", "-"),
)
def importance(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
) -> HeadTensors:
    r""":math:`I_h = \mathbb{E}_x |\partial L(x) / \partial \xi_h|`, exact at any batch size."""
    return mean_over_batches(
        model,
        batches,
        loss,
        device,
        lambda gradient, _: gradient.sum(1).abs().sum(0),
        lambda _batch, gradient, _kind: len(gradient),
    )


def example_importance(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
) -> HeadTensors:
    r""":math:`|\partial L(x) / \partial \xi_h|` of each example, ``(example, layer, head)`` a kind.

    Its mean over examples is :func:`headprune_lib.head_importance` without normalisation; NaN where
    a head was removed. For intervals of what is computed from importance.

    Raises:
        ValueError: no batches, a label outside the classes, or examples whose losses depend on each
            other.
    """
    blocks = find_heads(model)
    rows: list[list[Tensor]] = [[] for _ in blocks]
    for batch, gradients in batch_gradients(model, batches, blocks, loss, device):
        if not rows[0]:
            check_apart(model, batch, loss)
        for row, gradient in zip(rows, gradients, strict=True):
            row.append(gradient.sum(1).abs().cpu())
    if not rows[0]:
        raise ValueError("no batches given: expected at least one example")
    return on_grid(model, blocks, [torch.cat(row) for row in rows])
