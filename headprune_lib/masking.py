"""Mask attention heads while a ``with`` block lasts; nothing of it stays behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from headprune_lib.heads import AttentionBlock, Heads, HeadTensors, check_mask, find_heads
from headprune_lib.hooking import changed_inputs

if TYPE_CHECKING:
    from jaxtyping import Float

Gate = Tensor | Callable[[Tensor], Tensor] | None
"""The gates of one block's heads, or what makes them of the input of its output projection."""


@contextmanager
def masked_heads(model: nn.Module, mask: HeadTensors | Tensor | Heads) -> Iterator[nn.Module]:
    """Multiply each head's output by its entry of ``mask`` inside the block (paper, section 2.3).

    The mask acts on the *input* of the attention output projection, where heads are still apart.
    Works under every attention implementation, in training and in generation. While it lasts,
    what :func:`torch.compile` made of the model (or of any other) runs uncompiled: compiled code
    would not look at the mask.

    ``backward()`` may come after the block, and gives the masked model's gradients, also with
    activation checkpointing, which runs layers again in the backward pass. A mask that requires a
    gradient gets one.

    Args:
        model: a transformers model that :func:`headprune_lib.find_heads` knows.
        mask: kind -> tensor or array of shape ``(layer, head)``, bool or floating; 1 keeps, 0 cuts.
            The tensor alone will do for a model of one kind. Entries of heads that were removed from
            the model are ignored. Or the heads to cut, as :func:`headprune_lib.cut_heads` takes them.

    Raises:
        TypeError, ValueError, IndexError: see :func:`headprune_lib.heads.check_mask`.
        RuntimeError: another thread masks the model; or a pass that was made outside the block is
            repeated inside, by activation checkpointing.

    Example:
        >>> import torch
        >>> from transformers import BertConfig, BertModel
        >>> model = BertModel(BertConfig(hidden_size=8, num_attention_heads=4, vocab_size=10,
        ...                              num_hidden_layers=1, intermediate_size=8)).eval()
        >>> mask = {"self": torch.tensor([[1.0, 0.0, 1.0, 1.0]])}
        >>> with masked_heads(model, mask):
        ...     hidden = model(torch.tensor([[1, 2, 3]])).last_hidden_state
    """
    with gated(model, check_mask(model, mask)):
        yield model


@contextmanager
def masked_rows(
    model: nn.Module, masks: Sequence[HeadTensors], rows: Sequence[int]
) -> Iterator[nn.Module]:
    """As :func:`headprune_lib.masked_heads`, with a mask of its own for each example of a batch.

    Args:
        masks: masks as for :func:`headprune_lib.masked_heads`.
        rows: for each example of the batch the index of its mask. In a beam search each example
            stands for as many rows of the batch as there are beams.
    """
    stacked = stacked_masks(model, masks)
    with gated(model, {kind: values[:, list(rows)] for kind, values in stacked.items()}):
        yield model


def stacked_masks(
    model: nn.Module, masks: Sequence[HeadTensors]
) -> dict[str, Float[Tensor, "layer mask head"]]:
    """Several masks, checked, as kind -> ``(layer, mask, head)``."""
    checked = [check_mask(model, mask) for mask in masks]
    return {kind: torch.stack([mask[kind] for mask in checked], dim=1) for kind in checked[0]}


@contextmanager
def gated(model: nn.Module, gates: Mapping[str, Tensor] | Sequence[Gate]) -> Iterator[None]:
    """Multiply the input of each attention output projection by gates of its heads, inside.

    Masks, masks of single rows, gates that are learned and derivatives by gates are all this hook.
    A gradient flows to every gate that requires one; with activation checkpointing too.

    Args:
        gates: kind -> ``(layer, head)``, ``(layer, row, head)`` or
            ``(layer, row or 1, position or 1, head)``, finite for every head that is still there.
            Or an entry for each block of ``find_heads(model)``, with the heads that it has left:
            ``(head,)``, ``(row, head)`` or ``(row or 1, position or 1, head)``; a function that
            returns such a tensor for the projection's input ``(row, position, head * width)``,
            called at every run; or None, which leaves the block as it is. Where gates have fewer
            rows than a batch, each is for equally many rows that follow one another.

    Raises:
        ValueError: gates by row for a batch of another number of rows, or where a model's code
            takes examples windowed or flattened (raised by the forward pass).
        RuntimeError: see :func:`headprune_lib.masked_heads`.
    """
    blocks = find_heads(model)
    if isinstance(gates, Mapping):
        gates = _gates_of_blocks(blocks, gates)
    changes = [
        None if gate is None else partial(_gated, block, gate)
        for block, gate in zip(blocks, gates, strict=True)
    ]
    with changed_inputs([block.part(model, "output") for block in blocks], changes):
        yield


def _gates_of_blocks(blocks: list[AttentionBlock], gates: Mapping[str, Tensor]) -> list[Gate]:
    """Gates by kind as those of each block; None where all of them are 1."""

    def of_block(block: AttentionBlock, _context: Tensor | None = None) -> Tensor:
        kept = slice(block.n_heads) if len(block.kept) == block.n_heads else list(block.kept)
        return gates[block.kind][block.layer][..., kept]

    if any(values.requires_grad for values in gates.values()):
        # read at every run: an optimizer may change them inside the block
        return [partial(of_block, block) for block in blocks]
    each = [of_block(block) for block in blocks]
    placed: dict[tuple[torch.device, torch.dtype], tuple[Tensor, ...]] = {}

    def of_place(i: int, context: Tensor) -> Tensor:
        place = context.device, context.dtype
        if place not in placed:  # all blocks' gates in one copy
            together = torch.cat([gate.flatten() for gate in each]).to(*place)
            placed[place] = together.split([gate.numel() for gate in each])
        return placed[place][i].view(each[i].shape)

    return [
        None if bool((gate == 1).all()) else partial(of_place, i) for i, gate in enumerate(each)
    ]


def _gated(
    block: AttentionBlock, gate: Tensor | Callable[[Tensor], Tensor], context: Tensor
) -> Tensor:
    """What an output projection is given, ``(row, position, head * width)``, times the gates."""
    factors = gate(context) if callable(gate) else gate
    factors = _by_row(factors.to(context), context, block)
    by_head = context.unflatten(-1, (len(block.kept), block.width))
    return (by_head * factors[..., None]).flatten(-2)


def _by_row(gate: Tensor, context: Tensor, block: AttentionBlock) -> Tensor:
    """A block's gates as they are broadcast over ``(row, position, head)``."""
    if gate.ndim == 1:
        return gate
    if len(gate) == 1:
        return gate[0]
    if not block.by_example:
        raise ValueError(
            f"{block.path} takes its examples windowed, flattened or turned, so that a mask an "
            "example cannot be told apart there; give one example a batch"
        )
    if len(context) % len(gate):
        raise ValueError(
            f"a batch of {len(context)} rows, but masks for {len(gate)}: "
            "give the index of a mask for each example"
        )
    if len(gate) < len(context):
        gate = gate.repeat_interleave(len(context) // len(gate), dim=0)
    return gate[:, None] if gate.ndim == 2 else gate
