"""Score the heads of a model: by any criterion, and by the paper's importance."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any, Literal

from torch import nn

from headprune_lib.attention import eager_attention
from headprune_lib.criteria import CRITERIA, get_criterion
from headprune_lib.criteria.registry import Normalize, normalize_l2
from headprune_lib.discovery import find_heads
from headprune_lib.losses import Loss
from headprune_lib.masking import HeadTensors, check_scores
from headprune_lib.messages import unknown
from headprune_lib.utils import Batch, Device


def score_heads(
    model: nn.Module,
    batches: Iterable[Batch],
    by: str = "importance",
    *,
    loss: Loss | None = None,
    normalize: Normalize | Literal["own"] = "own",
    device: Device = None,
    **settings: Any,
) -> HeadTensors:
    """Score every head by a criterion; :func:`headprune_lib.prune_mask` cuts the lowest.

    Args:
        model: a transformers model; left as it was. If the criterion reads attention weights, the
            model runs with the eager kernel, the only one that returns them.
        batches: dicts of tensors that are the model's keyword arguments, ``labels`` among them.
        by: name of a criterion, a key of ``headprune_lib.criteria.CRITERIA``.
        loss: ``(outputs, batch) -> (batch,)``; see :func:`headprune_lib.head_importance`.
        normalize: ``"l2"`` divides by the l2 norm over the heads of a layer (paper, section 4.1),
            ``None`` leaves the scores as they are, ``"own"`` applies the criterion's default.
        device: where to compute; the model's own device if not given.
        settings: further arguments of the criterion, such as ``seed`` of ``"random"``.

    Returns:
        kind -> float64 tensor of shape ``(layer, head)``; NaN for heads that were removed.

    Raises:
        ValueError: an unknown criterion or normalisation, no batches, a label outside the
            classes, or a score that is NaN for an existing head (an infinite loss).

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> model = BertModel(BertConfig(hidden_size=8, num_attention_heads=4, vocab_size=10,
        ...                              num_hidden_layers=2, intermediate_size=8))
        >>> score_heads(model, [], by="random", seed=1)["self"].shape
        torch.Size([2, 4])
    """
    criterion = get_criterion(by)
    normalize = criterion.normalize if normalize == "own" else normalize
    _check_normalisation(normalize)
    with eager_attention(model) if criterion.weights else nullcontext():
        scores = criterion.score(model, batches, loss=loss, device=device, **settings)
    # built-in criteria need no check: to_head_tensors makes it, and greedy counts steps
    if not criterion.place.startswith("headprune_lib."):
        check_scores(model, scores, find_heads(model))
    return normalize_l2(scores) if normalize == "l2" else scores


def head_importance(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    normalize: Normalize = "l2",
    variant: str = "example",
    device: Device = None,
) -> HeadTensors:
    r"""Expected sensitivity of the loss to each head's gate (paper, Eq. 2).

    :math:`I_h = \mathbb{E}_x |\partial L(x) / \partial \xi_h|` with the absolute value taken per
    example. One backward pass of the loss *summed* over a batch gives every example's own
    derivative, :math:`\mathrm{Att}_h(x)^\top \partial L(x)/\partial \mathrm{Att}_h(x)`, because
    examples do not interact; the result does not depend on the batch size.

    Args:
        model: a transformers model; put in evaluation mode for the call, and left as it was.
        batches: dicts of tensors that are the model's keyword arguments, ``labels`` among them.
        loss: ``(outputs, batch) -> (batch,)``, one loss per example, which must not depend on other
            examples in the batch; by default what the model is trained with
            (:func:`headprune_lib.losses.default_loss`), summed over tokens.
        normalize: ``"l2"`` divides by the l2 norm over the heads of a layer (paper, section 4.1),
            ``None`` leaves the raw scores, in units of the loss.
        variant: ``"example"`` is Eq. 2. The others are found elsewhere under the same name:
            ``"token"``, absolute value per token position, mean over tokens (the paper's own code);
            ``"batch"``, per batch, of the mean loss;
            ``"bertology"``, the same with a gradient that is never zeroed, so a sum of absolute
            running totals (an old transformers example script);
            ``"fisher"``, the batch's derivative squared.
        device: where to compute; the model's own device if not given.

    Returns:
        kind -> float64 tensor of shape ``(layer, head)``; NaN for heads that were removed.

    Raises:
        ValueError: an unknown variant or normalisation, no batches, a label outside the classes,
            a loss that is not one number per example, examples that interact, or a head that the
            loss depends on without a gradient (layers quantised for inference).
    """
    variants = {each.variant: name for name, each in CRITERIA.items() if each.variant}
    if variant not in variants:
        raise ValueError(unknown("variant", variant, variants))
    _check_normalisation(normalize)
    by = variants[variant]
    return score_heads(model, batches, by, loss=loss, normalize=normalize, device=device)


def _check_normalisation(normalize: str | None) -> None:
    if normalize not in ("l2", None):
        raise ValueError(f"unknown normalisation {normalize!r}. Give 'l2' or None")
