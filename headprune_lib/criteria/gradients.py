"""Derivatives of each example's loss in the heads' gates, which criteria make scores of."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn

from headprune_lib.batching import Batch, without_labels
from headprune_lib.heads import AttentionBlock, HeadTensors, find_heads, head_grid
from headprune_lib.losses import Loss, default_loss
from headprune_lib.running import evaluating


def gate_gradients(
    model: nn.Module,
    batch: Batch,
    blocks: list[AttentionBlock] | None = None,
    loss: Loss | None = None,
) -> list[Tensor]:
    """Derivative of each example's loss in each head's gate, split by token position, at gate 1.

    Returns:
        one tensor of shape ``(batch, position, kept heads)`` for each block, on the model's device.
        Summed over positions it is ``dL(x)/dxi_h``.

    Raises:
        ValueError: a loss that is not one number an example.
    """
    blocks = find_heads(model) if blocks is None else blocks
    with contextlib.ExitStack() as stack:
        contexts: list[list[Tensor]] = [[] for _ in blocks]  # several where layers share a module
        for block, own in zip(blocks, contexts, strict=True):
            handle = block.part(model, "output").register_forward_pre_hook(_capture(own))
            stack.callback(handle.remove)
        with torch.enable_grad():
            losses = example_losses(model, batch, loss)
            # the sum: an example's loss has no gradient in another example's heads
            gradients = iter(
                torch.autograd.grad(
                    losses.sum(),
                    [context for own in contexts for context in own],
                    materialize_grads=True,
                )
            )
    result = []
    for block, own in zip(blocks, contexts, strict=True):
        if not own:  # a tower that the batch does not reach: the loss does not depend on it
            result.append(losses.new_zeros(len(losses), 1, len(block.kept)).detach())
            continue
        products = [context.detach() * next(gradients) for context in own]
        product = sum(products[1:], products[0])  # (B, T, kept * width)
        if not block.by_example:
            if len(losses) > 1:
                raise ValueError(
                    f"{block.path} takes its examples {tuple(product.shape)}, windowed, flattened "
                    "or turned, so that one example's part cannot be told; give batches of one "
                    "example"
                )
            product = product.reshape(1, -1, product.shape[-1])
        by_head = product.unflatten(-1, (len(block.kept), block.width))
        result.append(by_head.sum(-1))
    return result


def example_losses(model: nn.Module, batch: Batch, loss: Loss | None) -> Tensor:
    """Each example's loss (batch,), the model's usual one if none is given.

    Raises:
        ValueError: a loss that is not one number an example.
    """
    outputs = model(**(_model_inputs(model, batch) if loss is None else batch))
    losses = (loss or default_loss(model))(outputs, batch)
    if losses.ndim != 1:
        raise ValueError(
            f"the loss has shape {tuple(losses.shape)}, expected one number "
            "an example, (batch,): neither their mean nor their sum"
        )
    return losses


@contextlib.contextmanager
def opened(model: nn.Module, blocks: list[AttentionBlock], gates: list[Tensor]) -> Iterator[None]:
    """Inside, each head's output is multiplied by its gate, and a gradient flows through the gates.

    Args:
        gates: one tensor (kept heads,) a block. Masks, which need no gradient, are
            :func:`headprune_lib.masked_heads`.
    """
    with contextlib.ExitStack() as stack:
        for block, gate in zip(blocks, gates, strict=True):
            hook = block.part(model, "output").register_forward_pre_hook(_gate(gate, block.width))
            stack.callback(hook.remove)
        yield


def _gate(gate: Tensor, width: int) -> Callable[[nn.Module, tuple[Tensor, ...]], tuple]:
    def scale(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple:
        return (inputs[0] * gate.to(inputs[0]).repeat_interleave(width), *inputs[1:])

    return scale


def batch_gradients(
    model: nn.Module,
    batches: Iterable[Batch],
    blocks: list[AttentionBlock],
    loss: Loss | None,
    device: str | torch.device | None,
) -> Iterator[tuple[Batch, list[Tensor]]]:
    """Each batch, where the model is, with its :func:`gate_gradients`.

    Between two batches the model is in the mode that its owner left it in.
    """
    device = torch.device(device) if device is not None else next(model.parameters()).device
    model.to(device)
    for batch in batches:
        batch = {name: value.to(device) for name, value in batch.items()}
        with evaluating(model, frozen=True):
            gradients = gate_gradients(model, batch, blocks, loss)
        yield batch, gradients


Reduce = Callable[[Tensor, int], Tensor]
"""``(float64 gradients (batch, position, kept heads), number of block) -> (kept heads,)``."""
Count = Callable[[Batch, Tensor, str], int]
"""``(batch, gradients, kind) ->`` how many of what a score is a mean over the batch holds."""


def mean_over_batches(
    model: nn.Module,
    batches: Iterable[Batch],
    loss: Loss | None,
    device: str | torch.device | None,
    reduce: Reduce,
    count: Count,
) -> HeadTensors:
    """What ``reduce`` makes of each batch, summed, over the sum of ``count``.

    Returns:
        kind -> float64 tensor of shape ``(layer, head)``; NaN for heads that were removed.

    Raises:
        ValueError: no batches.
    """
    blocks = find_heads(model)
    totals = [torch.zeros(len(block.kept), dtype=torch.float64) for block in blocks]
    counts = [0] * len(blocks)
    for batch, gradients in batch_gradients(model, batches, blocks, loss, device):
        for i, (block, gradient) in enumerate(zip(blocks, gradients, strict=True)):
            counts[i] += count(batch, gradient, block.kind)
            totals[i] += reduce(gradient.double().cpu(), i)
    if not all(counts):
        raise ValueError("no batches given: head importance is a mean over at least one example")
    return on_grid(model, blocks, [total / n for total, n in zip(totals, counts, strict=True)])


def one_batch(_batch: Batch, _gradient: Tensor, _kind: str) -> int:
    """The count of a score that is a mean over batches."""
    return 1


def of_mean_loss(gradient: Tensor) -> Tensor:
    """The derivative of a batch's mean loss: (batch, position, head) -> (head,)."""
    return gradient.sum(1).mean(0)


def on_grid(model: nn.Module, blocks: list[AttentionBlock], values: list[Tensor]) -> HeadTensors:
    """Values (..., heads kept) of blocks as kind -> (..., layer, head), NaN where one is gone."""
    grid = {
        kind: torch.full((*values[0].shape[:-1], *shape), torch.nan, dtype=torch.float64)
        for kind, shape in head_grid(model).items()
    }
    for block, value in zip(blocks, values, strict=True):
        grid[block.kind][..., block.layer, list(block.kept)] = value.double()
    return grid


def _model_inputs(model: nn.Module, batch: Batch) -> Batch:
    """The inputs without labels, unless an encoder-decoder makes its decoder's input from them."""
    needed = getattr(model.config, "is_encoder_decoder", False) and not (
        {"decoder_input_ids", "decoder_inputs_embeds"} & batch.keys()
    )
    return batch if needed else without_labels(batch)


def _capture(contexts: list[Tensor]) -> Callable[[nn.Module, tuple[Tensor, ...]], tuple]:
    def keep(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        context = inputs[0]
        if not context.requires_grad:  # the lowest layer: nothing below it needs a gradient
            context = context.detach().requires_grad_()
        contexts.append(context)
        return (context, *inputs[1:])

    return keep
