"""Each example's own loss, and the checks that its derivatives in the gates are what they seem."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from headprune_lib.batching import Batch, model_inputs, n_rows, rows
from headprune_lib.heads import AttentionBlock
from headprune_lib.hooking import hooking
from headprune_lib.losses import NOTHING_COUNTS, Loss, default_loss, n_labels
from headprune_lib.messages import one_line
from headprune_lib.running import evaluating, rounding


def example_losses(model: nn.Module, batch: Batch, loss: Loss | None) -> Tensor:
    """Each example's loss (batch,), the model's usual one if none is given.

    Raises:
        TypeError: a loss that takes something else than outputs and a batch, as torch's own do, or
            that returns no tensor.
        ValueError: a loss that is not one number an example, or a model whose usual loss is not
            known.
    """
    loss_of = loss or default_loss(model)
    outputs = model(**(model_inputs(model, batch) if loss is None else batch))
    try:
        losses = loss_of(outputs, batch)
    except (TypeError, AttributeError) as error:
        name = getattr(loss_of, "__name__", type(loss_of).__name__)
        raise TypeError(
            f"the loss {name} failed on the model's outputs and the batch: {one_line(error, 160)}. "
            "Of a loss that takes logits and labels give lambda outputs, batch: torch.nn.functional."
            "cross_entropy(outputs.logits, batch['labels'], reduction='none'), or the like"
        ) from error
    if not isinstance(losses, Tensor):
        raise TypeError(
            f"the loss is a {type(losses).__name__}, not a tensor of one number an example, (batch,)"
        )
    if losses.ndim != 1 or len(losses) not in _sizes(batch):
        raise ValueError(
            f"the loss has shape {tuple(losses.shape)} for a batch of "
            f"{' or '.join(map(str, _sizes(batch)))} examples, expected one number "
            "an example, (batch,): neither their mean nor their sum"
        )
    return losses


def differentiable_losses(model: nn.Module, batch: Batch, loss: Loss | None) -> Tensor:
    """As :func:`example_losses`, where a gradient is asked for next.

    Raises:
        ValueError: besides, layers that are quantised for inference, or losses without gradient.
    """
    if torch.is_inference_mode_enabled():
        raise ValueError(
            "this runs under torch.inference_mode, which no gradient can be had in: call it "
            "outside (torch.no_grad does no harm), or use a criterion without gradients"
        )
    for path, module in model.named_modules():
        if type(module).__module__.startswith(_NO_GRADIENT):
            raise ValueError(
                f"{path} is a layer quantised for inference ({type(module).__name__} of "
                f"{type(module).__module__}), and PyTorch lets no gradient through it: score the "
                "heads first, then quantise, or use a criterion without gradients"
            )
    losses = example_losses(model, batch, loss)
    if not losses.requires_grad:
        raise ValueError(
            "the loss has no gradient in any head: somewhere between them it is detached, or "
            "computed without gradients (quantised layers, .item(), torch.no_grad)"
        )
    return losses


# What torch.ao.quantization makes; its own warning that a gradient is missing is easily overlooked.
_NO_GRADIENT = ("torch.ao.nn.quantized", "torch.nn.quantized", "torch.ao.nn.intrinsic.quantized")


def check_labelled(model: nn.Module, batches: Iterable[Batch], loss: Loss | None) -> None:
    """Raises ValueError where no label of any batch counts: of no loss there is no order.

    A loss of one's own says itself what counts, and no labels at all are refused elsewhere.
    """
    if loss is not None:
        return
    usual = default_loss(model)
    labelled = [batch for batch in batches if isinstance(batch.get("labels"), Tensor)]
    if labelled and not any(n_labels(usual, batch) for batch in labelled):
        raise ValueError(f"there is no loss to score heads by: {NOTHING_COUNTS}")


def check_unused(
    model: nn.Module,
    batch: Batch,
    loss: Loss | None,
    silent: Sequence[AttentionBlock],
) -> None:
    """Blocks that have no gradient must be without influence too, or the gradient is wrong.

    Args:
        silent: the blocks that autograd found no way to from the loss.

    Raises:
        ValueError: the loss changes with the heads of a block without gradient.
    """
    silent = [block for block in silent if block.kept]
    if not silent:
        return
    outputs = [block.part(model, "output") for block in silent]
    with hooking(outputs), torch.no_grad():
        whole = example_losses(model, batch, loss)
        if torch.equal(whole, _without(model, batch, loss, outputs)):
            return
        used = [
            block.path
            for block, output in zip(silent, outputs, strict=True)
            if not torch.equal(whole, _without(model, batch, loss, [output]))
        ]
    raise ValueError(
        f"the loss depends on the heads of {', '.join(used) or 'layers taken together'}, but no "
        "gradient comes back to them: something in between is detached or has no derivative "
        "(quantised layers, an operator without backward, torch.no_grad). Score the model before "
        "that is done to it"
    )


def _without(
    model: nn.Module, batch: Batch, loss: Loss | None, outputs: Sequence[nn.Module]
) -> Tensor:
    """Each example's loss where these output projections are given zeros."""
    with contextlib.ExitStack() as stack:
        for output in outputs:
            stack.callback(output.register_forward_pre_hook(_close).remove)
        return example_losses(model, batch, loss)


def _close(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (torch.zeros_like(inputs[0]), *inputs[1:])


def check_apart(model: nn.Module, batch: Batch, loss: Loss | None) -> None:
    """An example's loss must not depend on the others of its batch: Eq. 2 is of each alone.

    The last example is run alone and with the one before it. A batch that cannot be taken apart,
    because some tensor has no row an example, is not checked.

    Args:
        batch: where the model is.

    Raises:
        ValueError: the example's loss alone is another one.
    """
    n = n_rows(batch)
    if n <= 1:
        return
    with evaluating(model), torch.no_grad():
        alone, beside = (
            example_losses(model, rows(batch, slice(n - taken, n)), loss)[-1].double()
            for taken in (1, 2)
        )
    # rounding differs with the size of a batch
    precision = min(rounding(model) ** 0.5, 0.1)
    if not torch.allclose(alone, beside, rtol=precision, atol=precision, equal_nan=True):
        raise ValueError(
            f"the last example's loss is {alone.item():.4g} alone and {beside.item():.4g} beside "
            "another: examples interact (a contrastive loss, negatives from the batch, a mean "
            "over it), so the derivative of each example's own loss, which Eq. 2 asks for, does "
            "not exist. Give a loss of each example alone; or call what belongs together one "
            "example, and give it as a batch of its own with one number as its loss"
        )


def _sizes(batch: Batch) -> list[int]:
    """How many examples a batch may hold: rows of the labels, or of any input where there are none."""
    named = [batch[name] for name in ("labels", "start_positions") if name in batch]
    values = [value for value in named or batch.values() if isinstance(value, Tensor)]
    return sorted({len(value) for value in values if value.ndim})
