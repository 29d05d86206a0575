"""Mask attention heads while a ``with`` block lasts; nothing of it stays behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from headprune_lib.heads import AttentionBlock, HeadTensors, check_mask, find_heads
from headprune_lib.hooking import hooking

if TYPE_CHECKING:
    from jaxtyping import Float


@contextmanager
def masked_heads(model: nn.Module, mask: HeadTensors) -> Iterator[nn.Module]:
    """Multiply each head's output by its entry of ``mask`` inside the block (paper, section 2.3).

    The mask acts on the *input* of the attention output projection, where heads are still apart.
    Works under every attention implementation, in training and in generation. While it lasts,
    what :func:`torch.compile` made of the model (or of any other) runs uncompiled: compiled code
    would not look at the mask.

    Args:
        model: a transformers model that :func:`headprune_lib.find_heads` knows.
        mask: kind -> tensor of shape ``(layer, head)``, bool or floating; 1 keeps, 0 cuts.
            Entries of heads that were removed from the model are ignored.

    Raises:
        TypeError, ValueError: see :func:`headprune_lib.heads.check_mask`.
        RuntimeError: another thread masks the model.

    Example:
        >>> import torch
        >>> from transformers import BertConfig, BertModel
        >>> model = BertModel(BertConfig(hidden_size=8, num_attention_heads=4, vocab_size=10,
        ...                              num_hidden_layers=1, intermediate_size=8)).eval()
        >>> mask = {"self": torch.tensor([[1.0, 0.0, 1.0, 1.0]])}
        >>> with masked_heads(model, mask):
        ...     hidden = model(torch.tensor([[1, 2, 3]])).last_hidden_state
    """
    with _gated(model, check_mask(model, mask)):
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
    with gated_rows(model, stacked_masks(model, masks), rows):
        yield model


def stacked_masks(
    model: nn.Module, masks: Sequence[HeadTensors]
) -> dict[str, Float[Tensor, "layer mask head"]]:
    """Several masks, checked, as kind -> ``(layer, mask, head)``."""
    checked = [check_mask(model, mask) for mask in masks]
    return {kind: torch.stack([mask[kind] for mask in checked], dim=1) for kind in checked[0]}


@contextmanager
def gated_rows(
    model: nn.Module, stacked: dict[str, Float[Tensor, "layer mask head"]], rows: Sequence[int]
) -> Iterator[None]:
    """As :func:`masked_rows`, for masks that are checked and stacked once and used many times."""
    with _gated(model, {kind: values[:, list(rows)] for kind, values in stacked.items()}):
        yield


@contextmanager
def _gated(
    model: nn.Module, factors: dict[str, Float[Tensor, "layer *example head"]]
) -> Iterator[None]:
    """Hooks that multiply, by one factor a head or by one an example and head."""
    blocks = find_heads(model)
    outputs = [block.part(model, "output") for block in blocks]
    over: list[bool] = []  # a copy that is made inside keeps the hooks
    with hooking(outputs), ExitStack() as stack:
        for block, output in zip(blocks, outputs, strict=True):
            gates = factors[block.kind][block.layer][..., : block.n_heads]
            if bool((gates == 1).all()):
                continue
            handle = output.register_forward_pre_hook(_scaling_hook(block, gates, over))
            stack.callback(handle.remove)
        stack.callback(over.append, True)
        yield


def _scaling_hook(
    block: AttentionBlock,
    gates: Float[Tensor, "*example head"],
    over: list[bool],
) -> Callable[[nn.Module, tuple[Tensor, ...]], tuple[Tensor, ...]]:
    # (..., head) -> (..., kept heads * width): one factor a column of the projection's input
    columns = gates[..., list(block.kept)].repeat_interleave(block.width, dim=-1)
    placed: dict[tuple[torch.device, torch.dtype], Tensor] = {}

    def scale(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if over:
            return inputs
        context = inputs[0]
        place = context.device, context.dtype
        if place not in placed:  # once, not at every piece that is generated
            placed[place] = columns.to(*place)
        factors = placed[place]
        if factors.ndim == 2:
            if not block.by_example and len(factors) > 1:
                raise ValueError(
                    f"{block.path} takes its examples windowed, flattened or turned, so that a "
                    "mask an example cannot be told apart there; give one example a batch"
                )
            if len(context) % len(factors):
                raise ValueError(
                    f"a batch of {len(context)} rows, but masks for {len(factors)}: "
                    "give the index of a mask for each example"
                )
            factors = factors.repeat_interleave(len(context) // len(factors), dim=0)[:, None]
        return (context * factors, *inputs[1:])

    return scale
