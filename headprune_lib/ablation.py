"""Sweeps that cut one head, or all heads of a layer but one.

What a cut does not change is not computed again: see :mod:`headprune_lib.reusing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from headprune_lib.batching import Batch, model_inputs
from headprune_lib.heads import Head, HeadTensors, find_heads, full_mask
from headprune_lib.masking import masked_heads
from headprune_lib.reusing import (
    How,
    Logits,
    Reduce,
    Swept,
    for_one_batch,
    logits_of,
    masks_of,
    swept,
)

Sweep = Iterator[Swept]


def one_head_masks(model: nn.Module) -> dict[Head, HeadTensors]:
    """For each head ``(kind, layer, head)`` the mask that cuts it alone (paper, section 3.2)."""
    return masks_of(model, "cut")


def all_but_one_masks(model: nn.Module) -> dict[Head, HeadTensors]:
    """For each head the mask that keeps it alone in its layer (paper, section 3.3)."""
    return masks_of(model, "keep")


def one_head_ablation(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    reduce: Reduce | None = None,
    device: str | torch.device | None = None,
) -> Sweep:
    """Logits with each head cut in turn (paper, section 3.2), activations reused.

    Nothing is computed before a batch is asked for, and between two batches the model is as it was:
    a sweep may be left half used, and sweeps of one model may take turns.

    Args:
        model: one with a head of its task; an encoder-decoder is given ``decoder_input_ids``, or
            makes them of ``labels``.
        batches: dicts of model inputs; other ``labels`` are seen by ``reduce`` alone.
        reduce: ``(outputs, batch) -> tensor``, what to keep of each pass in place of the logits, of
            which a language model has as many for each head as there are words; such as
            ``headprune_lib.losses.default_loss(model)``, one number an example.
        device: where to compute; the model's own device if not given.

    Returns:
        iterator of ``(uncut, cut)`` for each batch, on the CPU: logits of shape ``(batch, class)``
        and ``{(kind, layer, head): logits}`` for every head, or what ``reduce`` makes.

    Raises:
        ValueError: outputs without logits, or so many of them that all heads' would take more than
            4 GiB (give ``reduce``).
    """
    return _sweep(model, batches, "cut", reduce, device)


def all_but_one(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    reduce: Reduce | None = None,
    device: str | torch.device | None = None,
) -> Sweep:
    """As :func:`one_head_ablation`, with every other head of the layer cut (paper, section 3.3)."""
    return _sweep(model, batches, "keep", reduce, device)


def masked_logits(
    model: nn.Module,
    batches: Iterable[Batch],
    mask: HeadTensors | Tensor | None = None,
    *,
    device: str | torch.device | None = None,
) -> Iterator[Logits]:
    """Logits ``(batch, class)`` of each batch under one mask, by plain masked forward passes.

    As of :func:`headprune_lib.one_head_ablation`, batches are computed as they are asked for, and
    the model is as it was between them.
    """
    mask = full_mask(model) if mask is None else mask
    for batch in batches:
        with for_one_batch(model, batch, device) as inputs, masked_heads(model, mask):
            logits = logits_of(model(**model_inputs(model, inputs)), inputs)
        yield logits


def _sweep(
    model: nn.Module,
    batches: Iterable[Batch],
    how: How,
    reduce: Reduce | None,
    device: str | torch.device | None,
) -> Sweep:
    find_heads(model)  # a model without any is refused here, and not where a batch is asked for
    return (swept(model, batch, how, reduce, device) for batch in batches)
