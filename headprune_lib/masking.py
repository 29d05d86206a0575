"""Mask attention heads while a ``with`` block lasts; nothing of it stays behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from torch import Tensor, nn

from headprune_lib.heads import AttentionBlock, HeadTensors, check_mask, find_heads


@contextmanager
def masked_heads(model: nn.Module, mask: HeadTensors) -> Iterator[nn.Module]:
    """Multiply each head's output by its entry of ``mask`` inside the block (paper, section 2.3).

    The mask acts on the *input* of the attention output projection, where heads are still apart.
    Works under every attention implementation, in training and in generation.

    Args:
        model: a transformers model that :func:`headprune_lib.find_heads` knows.
        mask: kind -> tensor of shape ``(layer, head)``, bool or floating; 1 keeps, 0 cuts.
            Entries of heads that were removed from the model are ignored.

    Raises:
        TypeError, ValueError: see :func:`headprune_lib.heads.check_mask`.

    Example:
        >>> import torch
        >>> from transformers import BertConfig, BertModel
        >>> model = BertModel(BertConfig(hidden_size=8, num_attention_heads=4, vocab_size=10,
        ...                              num_hidden_layers=1, intermediate_size=8)).eval()
        >>> mask = {"self": torch.tensor([[1.0, 0.0, 1.0, 1.0]])}
        >>> with masked_heads(model, mask):
        ...     hidden = model(torch.tensor([[1, 2, 3]])).last_hidden_state
    """
    mask = check_mask(model, mask)
    with ExitStack() as stack:
        for block in find_heads(model):
            row = mask[block.kind][block.layer]
            if bool((row == 1).all()):
                continue
            output = block.part(model, "output")
            handle = output.register_forward_pre_hook(_scaling_hook(block, row))
            stack.callback(handle.remove)
        yield model


def _scaling_hook(block: AttentionBlock, row: Tensor):
    # (head,) -> (kept heads * width,): one factor a column of the projection's input
    columns = row[list(block.kept)].repeat_interleave(block.width)

    def scale(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        context = inputs[0]
        return (context * columns.to(context.device, context.dtype), *inputs[1:])

    return scale
