"""Sweeps that cut one head, or all heads of a layer but one, with the activations reused.

Cutting a head of layer l changes nothing below l, and the attention of layer l itself runs once
for all its heads: a head's contribution to the output projection is linear. So for each cut only
the rest of layer l and the layers above are computed. With layers of equal cost, a sweep over
every head of L layers costs (L - 1)/2 layers plus the feed-forward part of one layer a head,
where plain masking costs L: 0.53 of it at L = 6. Where the classifier is known to read the first
position alone, the last layer's feed-forward part is computed there alone, on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from headprune_lib.batching import Batch, without_labels
from headprune_lib.heads import AttentionBlock, Head, HeadTensors, find_heads, full_mask
from headprune_lib.masking import masked_heads
from headprune_lib.pruning import not_plain
from headprune_lib.running import (
    Call,
    evaluating,
    first_position_alone,
    on_device,
    placed,
    recorded,
    replayed,
)

if TYPE_CHECKING:
    from jaxtyping import Float

    Logits = Float[Tensor, "batch *position class"]
else:
    Logits = Tensor

Reduce = Callable[[Any, Batch], Tensor]
"""A model's outputs and the batch they are of -> what of them is wanted."""

Swept = tuple[Logits, dict[Head, Logits]]
"""Logits of one batch: of the uncut model, and ``{(kind, layer, head): with that head cut}``."""
Sweep = Iterator[Swept]


def one_head_masks(model: nn.Module) -> dict[Head, HeadTensors]:
    """For each head ``(kind, layer, head)`` the mask that cuts it alone (paper, section 3.2)."""
    masks = {}
    for block in find_heads(model):
        for head in block.kept:
            mask = full_mask(model)
            mask[block.kind][block.layer, head] = 0
            masks[block.kind, block.layer, head] = mask
    return masks


def all_but_one_masks(model: nn.Module) -> dict[Head, HeadTensors]:
    """For each head the mask that keeps it alone in its layer (paper, section 3.3)."""
    masks = {}
    for block in find_heads(model):
        for head in block.kept:
            mask = full_mask(model)
            mask[block.kind][block.layer] = 0
            mask[block.kind][block.layer, head] = 1
            masks[block.kind, block.layer, head] = mask
    return masks


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
        model: an encoder with a head of its task, or a decoder-only model.
        batches: dicts of model inputs; ``labels`` in them are seen by ``reduce`` alone.
        reduce: ``(outputs, batch) -> tensor``, what to keep of each pass in place of the logits, of
            which a language model has as many for each head as there are words; such as
            ``headprune_lib.losses.default_loss(model)``, one number an example.
        device: where to compute; the model's own device if not given.

    Returns:
        iterator of ``(uncut, cut)`` for each batch, on the CPU: logits of shape ``(batch, class)``
        and ``{(kind, layer, head): logits}`` for every head, or what ``reduce`` makes.

    Raises:
        ValueError: an encoder-decoder, whose activations cannot be reused this way; outputs without
            logits, or so many of them that all heads' would take more than 4 GiB (give ``reduce``).
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
    mask: HeadTensors | None = None,
    *,
    device: str | torch.device | None = None,
) -> Iterator[Logits]:
    """Logits ``(batch, class)`` of each batch under one mask, by plain masked forward passes.

    As of :func:`headprune_lib.one_head_ablation`, batches are computed as they are asked for, and
    the model is as it was between them.
    """
    mask = full_mask(model) if mask is None else mask
    for batch in batches:
        with _for_one_batch(model, batch, device) as inputs, masked_heads(model, mask):
            logits = _logits(model(**without_labels(inputs)), inputs)
        yield logits


def _sweep(
    model: nn.Module,
    batches: Iterable[Batch],
    how: str,
    reduce: Reduce | None,
    device: str | torch.device | None,
) -> Sweep:
    kinds = {block.kind for block in find_heads(model)}
    if kinds != {"self"}:
        raise ValueError(
            f"{type(model).__name__} has kinds {sorted(kinds)}; sweeps reuse the activations of "
            "encoders. Use masked_logits with one_head_masks(model), or "
            "headprune_lib.generation.drafts for translations"
        )
    return (_swept(model, batch, how, reduce, device) for batch in batches)


def _swept(
    model: nn.Module,
    batch: Batch,
    how: str,
    reduce: Reduce | None,
    device: str | torch.device | None,
) -> Swept:
    """What a sweep yields of one batch."""
    blocks = find_heads(model)
    cut: dict[Head, Tensor] = {}
    layers = [model.get_submodule(block.layer_path) for block in blocks]
    cores, projections = (
        [block.part(model, part) for block in blocks] for part in ("core", "output")
    )
    with _for_one_batch(model, batch, device) as inputs:
        run = _Run(model, inputs, reduce or _logits)
        with (
            recorded(layers) as ran,
            recorded(cores) as attended,
            recorded(projections) as projected,
        ):
            uncut = run()
        if reduce is None:
            _check_size(uncut, sum(len(block.kept) for block in blocks))
        # layers that share a module, or may stand otherwise than one after another; and what a head
        # adds to the projection can be computed apart only from weights as they are
        if (
            any(call.times > 1 for call in projected)
            or any(block.how == "found" for block in blocks)
            or any(map(_opaque, projections))
        ):
            return uncut, _masked_one_by_one(model, run, how)
        for i, block in enumerate(blocks):
            if not projected[i].times:  # attention to an encoder that is not there
                cut |= {(block.kind, block.layer, head): uncut.clone() for head in block.kept}
                continue
            # the layers below return what they did, and so does the attention but for its heads
            below = {
                layer: call.output
                for layer, call in zip(layers[:i], ran[:i], strict=True)
                if layer is not layers[i]  # which may hold several blocks
            }
            with replayed(list(below), list(below.values())):
                for j, head in enumerate(block.kept):
                    made = _projection(model, block, projected[i], j, how)
                    with _attention_returning(model, block, attended[i], made):
                        cut[block.kind, block.layer, head] = run()
    return uncut, cut


@dataclass(frozen=True)
class _Run:
    """One pass of a model over a batch, and what is kept of it, on the CPU."""

    model: nn.Module
    batch: Batch
    reduce: Reduce

    def __call__(self) -> Tensor:
        return self.reduce(self.model(**without_labels(self.batch)), self.batch).cpu()


def _logits(outputs: Any, _batch: Batch) -> Logits:
    logits = getattr(outputs, "logits", None)
    if not isinstance(logits, Tensor):
        raise ValueError(
            f"the model returns {type(outputs).__name__}, without logits; say with "
            "reduce=(outputs, batch) what of it is wanted"
        )
    return logits.cpu()


_MOST_BYTES = 4 * 2**30


def _check_size(logits: Tensor, n_heads: int) -> None:
    needed = logits.numel() * logits.element_size() * n_heads
    if needed > _MOST_BYTES:
        raise ValueError(
            f"the logits of this batch {tuple(logits.shape)} under each of {n_heads} cuts would "
            f"take {needed / 2**30:.1f} GiB: give reduce=(outputs, batch), such as "
            "headprune_lib.losses.default_loss(model), or smaller batches"
        )


def _opaque(projection: nn.Module) -> bool:
    own = type(projection).forward in (nn.Linear.forward, Conv1D.forward)
    return not own or not_plain(projection) is not None


@contextmanager
def _for_one_batch(
    model: nn.Module, batch: Batch, device: str | torch.device | None
) -> Iterator[Batch]:
    """The batch on the device, while the model is ready for it.

    Entered anew for each batch: a generator that yields from inside would leave the model in
    evaluation mode, and gradients off, for whatever its caller does next.
    """
    device = placed(model, device)
    # no_grad, for inference mode's tensors could not be changed in place by the caller
    with evaluating(model), torch.no_grad(), first_position_alone(model, batch):
        yield on_device(batch, device)


def _masked_one_by_one(model: nn.Module, run: _Run, how: str) -> dict[Head, Tensor]:
    """Where layers share a module, all are cut at once: nothing below a cut can be reused."""
    masks = one_head_masks(model) if how == "cut" else all_but_one_masks(model)
    cut = {}
    for head, mask in masks.items():
        with masked_heads(model, mask):
            cut[head] = run()
    return cut


def _attention_returning(
    model: nn.Module,
    block: AttentionBlock,
    attended: Call,
    projected: Float[Tensor, "batch position hidden"],
) -> AbstractContextManager[None]:
    """Inside, a block's attention returns what it did, with its output projection's in place."""
    core, before = block.part(model, "core"), attended.output
    if block.architecture.core:  # the module around the core applies the projection
        return replayed([core, block.part(model, "output")], [before, projected])
    return replayed([core], [(projected, *before[1:]) if isinstance(before, tuple) else projected])


def _projection(
    model: nn.Module, block: AttentionBlock, projected: Call, j: int, how: str
) -> Float[Tensor, "batch position hidden"]:
    """The output projection without (``cut``) or with only (``keep``) the block's j-th kept head.

    (B, T, width) x (width, hidden) -> (B, T, hidden)
    """
    projection: Any = block.part(model, "output")
    context = projected.inputs[0]  # (B, T, heads * width)
    columns = slice(j * block.width, (j + 1) * block.width)
    turned = isinstance(projection, Conv1D)  # (in, out) where a linear layer has (out, in)
    weight = projection.weight.T if turned else projection.weight
    share = nn.functional.linear(context[..., columns], weight[:, columns])
    if how == "cut":
        return projected.output - share
    return share if projection.bias is None else share + projection.bias
