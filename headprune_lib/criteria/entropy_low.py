"""How narrowly a head looks: the entropy of its attention weights, turned round."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import torch
from torch import nn

from headprune_lib.batching import Batch
from headprune_lib.criteria.entropy import entropy
from headprune_lib.criteria.registry import Look, register_criterion
from headprune_lib.heads import HeadTensors
from headprune_lib.losses import Loss


@register_criterion(
    "entropy-low",
    label="attention entropy, low kept",
    formula=r"1 - \mathbb{E}_{x, q} \frac{-\sum_k a_{qk} \log a_{qk}}{\log |K(q)|}",
    source="the opposite reading: heads that look at one place have found something",
    look=Look("orange", ":"),
    cost="a forward pass, eager",
    weights=True,
)
def entropy_low(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
    leave_out: Collection[int] = (),
) -> HeadTensors:
    """1 minus :func:`headprune_lib.criteria.entropy.entropy`, with its arguments and errors."""
    scores = entropy(model, batches, device=device, leave_out=leave_out)
    return {kind: 1 - values for kind, values in scores.items()}
