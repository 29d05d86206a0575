"""One loss an example, as head importance needs it: ``(outputs, batch) -> (batch,)`` in nats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from headprune_lib.batching import NO_LABEL, Batch

Loss = Callable[[Any, Batch], Tensor]
"""A model's outputs and the batch they are of -> one number an example."""


def default_loss(model: nn.Module) -> Loss:
    """Cross-entropy as transformers would compute it: of the next token for a language model."""
    config = getattr(model, "config", None)
    causal = (
        not getattr(config, "is_encoder_decoder", False) and getattr(model, "can_generate", bool)()
    )
    return next_token_cross_entropy if causal else cross_entropy


def next_token_cross_entropy(outputs: Any, batch: Batch) -> Tensor:
    """As :func:`cross_entropy`, of each token (``labels`` are the inputs) from those before it."""
    if "labels" not in batch:
        return cross_entropy(outputs, batch)
    ahead = batch["labels"].new_full((len(batch["labels"]), 1), NO_LABEL)
    shifted = torch.cat([batch["labels"][:, 1:], ahead], 1)
    return cross_entropy(outputs, {**batch, "labels": shifted})


def cross_entropy(outputs: Any, batch: Batch) -> Tensor:
    """One cross-entropy an example, in nats: ``(batch, class) x (batch,) -> (batch,)``.

    For a model that predicts a token at each position, ``(batch, position, class) x (batch,
    position) -> (batch,)``: the sum over the positions whose label is not -100.

    Raises:
        ValueError: no labels, or one outside ``0 .. classes - 1``.
    """
    logits = outputs.logits
    if "labels" not in batch:
        raise ValueError(
            "the batch has no 'labels': give them, or a loss=(outputs, batch) of your own"
        )
    labels, n_classes = batch["labels"], logits.shape[-1]
    outside = (labels < 0) | (labels >= n_classes)
    if labels.ndim == 2:
        outside &= labels != NO_LABEL
    if outside.any():
        wrong = labels[outside][0].item()
        raise ValueError(
            f"label {wrong} is outside the model's {n_classes} classes (0 to {n_classes - 1})"
        )
    exact = logits.float() if logits.dtype != torch.float64 else logits
    losses = nn.functional.cross_entropy(
        exact.movedim(-1, 1), labels, reduction="none", ignore_index=NO_LABEL
    )
    return losses.sum(-1) if labels.ndim == 2 else losses
