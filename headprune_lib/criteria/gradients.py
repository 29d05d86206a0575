"""Derivatives of each example's loss in the heads' gates, which criteria make scores of."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn

from headprune_lib.batching import Batch
from headprune_lib.criteria.derivatives import check_derivatives, watching
from headprune_lib.criteria.example_losses import (
    check_apart,
    check_unused,
    differentiable_losses,
)
from headprune_lib.heads import AttentionBlock, HeadTensors, find_heads, head_grid
from headprune_lib.hooking import hooked, hooking
from headprune_lib.losses import Loss
from headprune_lib.running import (
    Room,
    evaluating,
    in_halves,
    on_device,
    placed,
)


def gate_gradients(
    model: nn.Module,
    batch: Batch,
    blocks: list[AttentionBlock] | None = None,
    loss: Loss | None = None,
    *,
    checked: bool = True,
) -> list[Tensor]:
    """Derivative of each example's loss in each head's gate, split by token position, at gate 1.

    Args:
        checked: whether the gradient of code that may give another one is compared with finite
            differences; see ``headprune_lib.criteria.derivatives``.

    Returns:
        one tensor of shape ``(batch, position, kept heads)`` for each block, on the model's device.
        Summed over positions it is ``dL(x)/dxi_h``. Where an example is several rows of the model
        (the choices of a question), their positions lie one after the other; a block that the
        loss does not use has zeros.

    Raises:
        ValueError: a loss that is not one number an example; or one that depends on a block
            without having a gradient there, as through layers quantised for inference; a model
            whose own code gives another gradient than the derivative.
    """
    blocks = find_heads(model) if blocks is None else blocks
    outputs = [block.part(model, "output") for block in blocks]
    contexts: list[list[Tensor]] = [[] for _ in blocks]  # several where layers share a module
    with hooking(outputs), contextlib.ExitStack() as stack:
        for output, own in zip(outputs, contexts, strict=True):
            handle = output.register_forward_pre_hook(_capture(own))
            stack.callback(handle.remove)
        with torch.enable_grad():
            with watching(model, loss) if checked else contextlib.nullcontext() as watch:
                losses = differentiable_losses(model, batch, loss)
            if watch is not None:
                watch.look_back(losses)
            # the sum: an example's loss has no gradient in another example's heads. What is missing
            # is not made zeros by autograd: it cannot tell "no influence" from "no derivative"
            contexts = [list(own) for own in contexts]  # layers that are checkpointed run once more
            flat = [context for own in contexts for context in own]
            found = iter(torch.autograd.grad(losses.sum(), flat, allow_unused=True))
    result: list[Tensor] = []
    silent: list[AttentionBlock] = []
    for block, own in zip(blocks, contexts, strict=True):
        passed = [(context.detach(), next(found)) for context in own]
        made = [context * gradient for context, gradient in passed if gradient is not None]
        if made:
            product = sum(made[1:], made[0])  # (rows, T, kept * width)
            by_head = product.unflatten(-1, (len(block.kept), block.width)).sum(-1)
            result.append(_by_example(by_head, len(losses), block))
        else:
            # one that did not run (attention to an encoder that is not there) is not used anyway
            silent += [block] if own else []
            result.append(losses.detach().new_zeros(len(losses), 1, len(block.kept)))
    check_unused(model, batch, loss, silent)
    if watch is not None:
        check_derivatives(
            model,
            batch,
            loss,
            blocks,
            result,
            watch,
            lambda double, inputs: gate_gradients(double, inputs, blocks, loss, checked=False),
        )
    return result


def _by_example(gradient: Tensor, n: int, block: AttentionBlock) -> Tensor:
    """(rows, position, head) -> (example, positions of its rows, head)."""
    if not block.by_example:
        if n > 1:
            raise ValueError(
                f"{block.path} takes its examples {tuple(gradient.shape)}, windowed, flattened or "
                "turned, so that one example's part cannot be told; give batches of one example"
            )
        return gradient.reshape(1, -1, gradient.shape[-1])
    if len(gradient) % n:
        raise ValueError(
            f"{block.path} runs on {len(gradient)} rows for {n} examples: which rows are whose "
            "is not known, so there is no derivative of each example's loss"
        )
    return gradient.unflatten(0, (n, len(gradient) // n)).flatten(1, 2)


def batch_gradients(
    model: nn.Module,
    batches: Iterable[Batch],
    blocks: list[AttentionBlock],
    loss: Loss | None,
    device: str | torch.device | None,
) -> Iterator[tuple[Batch, list[Tensor]]]:
    """Each batch, where the model is, with its :func:`gate_gradients`.

    Between two batches the model is in the mode that its owner left it in. A batch that memory has
    no room for is taken in halves: an example's derivatives do not depend on the others.
    """
    device, room = placed(model, device), Room()
    for given in batches:
        batch = on_device(given, device)
        with evaluating(model, frozen=True):
            gradients = in_halves(
                lambda part: gate_gradients(model, part, blocks, loss), batch, _joined, room
            )
        yield batch, gradients


def _joined(halves: list[list[Tensor]]) -> list[Tensor]:
    return [torch.cat(both) for both in zip(*halves, strict=True)]


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
        ValueError: no batches, or examples whose losses depend on each other.
    """
    blocks = find_heads(model)
    totals = [torch.zeros(len(block.kept), dtype=torch.float64) for block in blocks]
    counts = [0] * len(blocks)
    for batch, gradients in batch_gradients(model, batches, blocks, loss, device):
        if not any(counts):
            check_apart(model, batch, loss)
        for i, (block, gradient) in enumerate(zip(blocks, gradients, strict=True)):
            counts[i] += count(batch, gradient, block.kind)
            totals[i] += reduce(gradient.double().cpu(), i)
    if not all(counts):
        raise ValueError("no batches given: head importance is a mean over at least one example")
    check_some(model, blocks, totals)
    return on_grid(model, blocks, [total / n for total, n in zip(totals, counts, strict=True)])


def check_some(
    model: nn.Module, blocks: Sequence[AttentionBlock], totals: Sequence[Tensor]
) -> None:
    """Raises ValueError where every head has exactly 0: no order could be made of that.

    Under a mask it may be so: what is left of a model may have no influence.
    """
    if hooked(block.part(model, "output") for block in blocks):
        return
    if sum(map(len, totals)) and not any(total.any() for total in totals):
        raise ValueError(
            "every head's score is exactly 0: no example has a label that counts (all of them "
            "-100, or texts of one token for a language model?), or the precision is too coarse for "
            "the loss (float16)"
        )


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


def _capture(contexts: list[Tensor]) -> Callable[[nn.Module, tuple[Tensor, ...]], tuple]:
    def keep(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        context = inputs[0]
        if not context.requires_grad:  # the lowest layer: nothing below it needs a gradient
            context = context.detach().requires_grad_()
        contexts.append(context)
        return (context, *inputs[1:])

    return keep
