"""What the authors' own code computes in place of Eq. 2: an absolute value a token position."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from headprune_lib.batching import NO_LABEL, Batch
from headprune_lib.criteria.gradients import mean_over_batches
from headprune_lib.criteria.registry import Look, register_criterion
from headprune_lib.heads import HeadTensors
from headprune_lib.losses import Loss


@register_criterion(
    "importance-token",
    label="importance a token (the authors' code)",
    variant="token",
    normalize="l2",
    formula=r"\frac{1}{\sum_x |x|} \sum_x \sum_{t \in x} \left|\mathrm{Att}_h(x)_t^\top "
    r"\frac{\partial L(x)}{\partial \mathrm{Att}_h(x)_t}\right|",
    source="the code of Michel, Levy & Neubig 2019: absolute value of each token position's share",
    look=Look("purple", "--"),
)
def importance_token(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
) -> HeadTensors:
    """Absolute value of each token position's share of the derivative, mean over tokens."""
    return mean_over_batches(
        model, batches, loss, device, lambda gradient, _: gradient.abs().sum((0, 1)), _n_tokens
    )


def _n_tokens(batch: Batch, gradient: Tensor, kind: str) -> int:
    """Positions of a batch that are not padding; ``gradient`` is (batch, position, head).

    The heads of a decoder beside an encoder have as many positions as there are labels.
    """
    decoder, labels = kind in ("enc-dec", "dec-dec"), batch.get("labels")
    mask = batch.get("decoder_attention_mask" if decoder else "attention_mask")
    if mask is None and decoder and labels is not None and labels.shape == gradient.shape[:2]:
        mask = labels != NO_LABEL
    return gradient.shape[0] * gradient.shape[1] if mask is None else int(mask.sum())
