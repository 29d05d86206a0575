"""Losses per example, as head importance needs them: ``(outputs, batch) -> (batch,)`` in nats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from headprune_lib.utils import NO_LABEL, Batch, uncompiled

Loss = Callable[[Any, Batch], Tensor]
"""A function of a model's outputs and their batch that returns one number per example."""


def default_loss(model: nn.Module) -> Loss:
    """Return the loss that transformers trains the model with, as one number per example.

    A classifier's loss depends on ``problem_type`` in its configuration, and a single class means
    regression. An answer's span is predicted by its two ends. A causal language model predicts the
    next token of labels that are its inputs; for a few of its classes, such as ``BartForCausalLM``,
    transformers itself expects labels that the caller has shifted. All other models use
    :func:`cross_entropy`.
    """
    config = getattr(model, "config", None)
    name = type(uncompiled(model)).__name__
    if name.endswith("ForQuestionAnswering"):
        return span_cross_entropy
    if name.endswith(_CLASSIFIERS):
        one_number = getattr(config, "num_labels", None) == 1
        problem = getattr(config, "problem_type", None) or ("regression" if one_number else "")
        if problem == "multi_label_classification":
            return binary_cross_entropy
        if problem == "regression":
            return squared_error
    return next_token_cross_entropy if predicts_next_token(model) else cross_entropy


_CLASSIFIERS = (
    "ForSequenceClassification",
    "ImageClassification",
    "VideoClassification",
    "AudioClassification",
)


def predicts_next_token(model: nn.Module) -> bool:
    """Whether a model is a causal language model, without an encoder.

    XLM and Flaubert generate, too, but are masked language models unless ``config.causal``.
    """
    config = getattr(model, "config", None)
    if getattr(config, "is_encoder_decoder", False) or not getattr(config, "causal", True):
        return False
    return getattr(model, "can_generate", bool)()


def next_token_cross_entropy(outputs: Any, batch: Batch) -> Tensor:
    """:func:`cross_entropy` of each token given those before it; ``labels`` are the inputs."""
    if "labels" not in batch:
        return cross_entropy(outputs, batch)
    ahead = batch["labels"].new_full((len(batch["labels"]), 1), NO_LABEL)
    shifted = torch.cat([batch["labels"][:, 1:], ahead], 1)
    return cross_entropy(outputs, {**batch, "labels": shifted})


NOTHING_COUNTS = (
    "no label counts in any batch (all are -100, or the texts have one token, so that a language "
    "model has nothing to predict). Give labels, or longer texts"
)
"""The message for batches in which no label counts."""


def n_labels(loss: Loss, batch: Batch) -> int:
    """The number of labels that a batch's losses sum over, for a loss of :func:`default_loss`.

    For labels at positions, these are the labels other than -100, in a language model only those
    with a token before them. Otherwise it is the number of examples.
    """
    labels = batch["labels"]
    if labels.ndim > 1 and loss in (cross_entropy, next_token_cross_entropy):
        predicted = labels[:, 1:] if loss is next_token_cross_entropy else labels
        return int((predicted != NO_LABEL).sum())
    return len(labels)


def cross_entropy(outputs: Any, batch: Batch) -> Tensor:
    """Cross-entropy of each example, in nats: ``(batch, class) x (batch,) -> (batch,)``.

    Choices of a question count as classes. For a model that predicts a token or a class at each
    position, ``(batch, position, class) x (batch, position) -> (batch,)``: the sum over the
    positions whose label is not -100.

    Raises:
        ValueError: no logits, no labels, labels that are not class numbers or do not fit the
            logits, or a label outside ``0 .. classes - 1``.
    """
    logits, labels = _logits_and_labels(outputs, batch)
    n_classes = logits.shape[-1]
    if labels.is_floating_point() or labels.shape != logits.shape[:-1] or labels.ndim > 2:
        raise ValueError(
            f"labels have shape {tuple(labels.shape)} and {labels.dtype} for logits of shape "
            f"{tuple(logits.shape)}, expected one class number per example, (batch,), or per "
            "position, (batch, position). Set model.config.problem_type for several labels per "
            "example or regression, or give a loss of your own, a function of (outputs, batch)"
        )
    outside = (labels < 0) | (labels >= n_classes)
    if labels.ndim > 1:
        outside &= labels != NO_LABEL
    if outside.any():
        wrong = labels[outside][0].item()
        raise ValueError(f"label {wrong} is outside the model's classes, 0 to {n_classes - 1}")
    # flattened: with classes as the second of three axes it takes longer and rounds more
    losses = functional.cross_entropy(
        logits.flatten(0, -2), labels.flatten(), reduction="none", ignore_index=NO_LABEL
    ).view(labels.shape)
    return losses.sum(-1) if labels.ndim > 1 else losses


def binary_cross_entropy(outputs: Any, batch: Batch) -> Tensor:
    """Cross-entropy of several yes-or-no labels: ``(batch, class) x (batch, class) -> (batch,)``.

    The mean over the classes, in nats, as in transformers.

    Raises:
        ValueError: no logits, no labels, or labels that are not one number in 0 to 1 per class.
    """
    logits, labels = _logits_and_labels(outputs, batch)
    if labels.shape != logits.shape or ((labels < 0) | (labels > 1)).any():
        raise ValueError(
            f"labels have shape {tuple(labels.shape)} for logits of shape {tuple(logits.shape)}, "
            "expected a number from 0 to 1 per example and class (multi_label_classification)"
        )
    labels = labels.to(logits)
    return functional.binary_cross_entropy_with_logits(logits, labels, reduction="none").mean(-1)


def squared_error(outputs: Any, batch: Batch) -> Tensor:
    """Regression: ``(batch, 1) x (batch,)`` or ``(batch, number) x (batch, number) -> (batch,)``.

    The mean squared error over an example's numbers, in their unit squared, as in transformers.

    Raises:
        ValueError: no logits, no labels, or labels that do not fit the logits.
    """
    logits, labels = _logits_and_labels(outputs, batch)
    if labels.ndim == 1:
        labels = labels[:, None]
    if labels.shape != logits.shape:
        raise ValueError(
            f"labels have shape {tuple(labels.shape)} for logits of shape {tuple(logits.shape)}, "
            "expected as many numbers per example as the model gives (regression)"
        )
    return (logits - labels.to(logits)).square().mean(-1)


def span_cross_entropy(outputs: Any, batch: Batch) -> Tensor:
    """Cross-entropy of an answer's two ends, ``start_positions`` and ``end_positions`` (batch,).

    The mean of the two cross-entropies over the positions, in nats: (batch,). As in transformers,
    an end outside the text (truncated with it) contributes 0.

    Raises:
        ValueError: outputs without logits of both ends, or a batch without the two ends.
    """
    start, end = (_of_one_end(outputs, batch, end) for end in ("start", "end"))
    return (start + end) / 2


def _of_one_end(outputs: Any, batch: Batch, end: str) -> Tensor:
    logits, positions = _logits_and_labels(outputs, batch, f"{end}_logits", f"{end}_positions")
    length = logits.shape[1]
    inside = positions.clamp(0, length)  # the index ``length`` is ignored
    return functional.cross_entropy(logits, inside, reduction="none", ignore_index=length)


def _logits_and_labels(
    outputs: Any, batch: Batch, logits_name: str = "logits", labels_name: str = "labels"
) -> tuple[Tensor, Tensor]:
    logits = getattr(outputs, logits_name, None)
    if not isinstance(logits, Tensor):
        returned = sorted(outputs) if isinstance(outputs, dict) else type(outputs).__name__
        raise ValueError(
            f"the model returns {returned} and no {logits_name}, so its usual loss is not known. "
            "Give a loss, a function of (outputs, batch) that returns one number per example"
        )
    if labels_name not in batch:
        raise ValueError(f"the batch has no {labels_name!r}. Give them, or a loss of your own")
    return logits if logits.dtype == torch.float64 else logits.float(), batch[labels_name]
