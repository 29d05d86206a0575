"""Importance times what entropy lacks to 1: important, and looking at few places."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import torch
from torch import nn

from headprune_lib.batching import Batch
from headprune_lib.criteria.importance_entropy import both
from headprune_lib.criteria.registry import Look, register_criterion
from headprune_lib.heads import HeadTensors
from headprune_lib.losses import Loss


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
    """Eq. 2 times 1 minus the entropy; see :mod:`headprune_lib.criteria.importance_entropy`."""
    important, entropy = both(model, batches, loss=loss, device=device, leave_out=leave_out)
    return {kind: values * (1 - entropy[kind]) for kind, values in important.items()}
