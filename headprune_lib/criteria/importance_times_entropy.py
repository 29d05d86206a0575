"""Importance times attention entropy: both must be high."""

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
    """Eq. 2 times the entropy (0 to 1); see :mod:`headprune_lib.criteria.importance_entropy`."""
    important, entropy = both(model, batches, loss=loss, device=device, leave_out=leave_out)
    return {kind: values * entropy[kind] for kind, values in important.items()}
