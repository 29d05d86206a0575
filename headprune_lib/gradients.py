"""Derivatives of each example's loss with respect to the heads' gates, and a check of them.

Model code that detaches tensors, disables gradients or has a custom backward pass may return a
wrong gradient. Where such code is seen, the gradient is compared with finite differences that have
error bounds. A gradient may lose half of the digits of the losses (``unit ** 0.5``: 1.5e-8 in
float64, 3.5e-4 in float32): rounding in a backward pass costs far fewer, errors in code far more.
"""

from __future__ import annotations

import copy
import math
import sys
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.overrides import TorchFunctionMode

from headprune_lib.discovery import find_heads
from headprune_lib.hooks import first_position_alone, graph_nodes
from headprune_lib.losses import Loss, default_loss
from headprune_lib.masking import gated
from headprune_lib.messages import one_line
from headprune_lib.specs import AttentionLayer
from headprune_lib.utils import (
    Batch,
    OomLimit,
    eval_mode,
    model_inputs,
    n_rows,
    rounding,
    rows,
    split_on_oom,
)

_TELLING = 2.0**-8  # relative to the slopes: coarser differences would miss an error of 0.5%
_TORCH = str(Path(torch.__file__).parent)
_HERE = str(Path(__file__).parent)
# Modules of torch.ao.quantization, whose own warning of a missing gradient is easily overlooked.
_NO_GRADIENT = ("torch.ao.nn.quantized", "torch.nn.quantized", "torch.ao.nn.intrinsic.quantized")


def gate_gradients(
    model: nn.Module,
    batch: Batch,
    blocks: Sequence[AttentionLayer] | None = None,
    loss: Loss | None = None,
    *,
    checked: bool = True,
) -> list[Tensor]:
    """Derivatives of each example's loss with respect to each head's gate at 1, by token position.

    Args:
        blocks: the result of ``find_heads(model)``, if it is known already.
        checked: whether the gradient is compared with finite differences where the model's code
            may return a wrong one.

    Returns:
        one tensor of shape ``(batch, position, kept heads)`` for each block, on the model's device.
        Summed over positions it is ``dL(x)/dxi_h``. Where an example has several rows in the model
        (the choices of a question), their positions are concatenated; a block that the loss does
        not use has zeros.

    Raises:
        ValueError: a loss that is not one number per example, or that depends on a block without
            a gradient there, as with layers quantised for inference; a model whose own code
            returns a gradient other than the derivative.
    """
    blocks = find_heads(model) if blocks is None else blocks
    gates = [_OpenGates(len(block.kept_heads)) for block in blocks]
    watch = _Watch() if checked and not _is_trusted(model, loss) else None
    with gated(model, gates, blocks), torch.enable_grad():
        with watch or nullcontext():
            losses = differentiable_losses(model, batch, loss)
        if watch:
            watch.look_back(losses)
        opened = [gate for open_gates in gates for gate in open_gates.by_shape.values()]
        # missing gradients stay None: zeros would turn "no derivative" into "no influence"
        slopes = iter(torch.autograd.grad(losses.sum(), opened, allow_unused=True))
    result: list[Tensor] = []
    unused: list[AttentionLayer] = []
    for block, open_gates in zip(blocks, gates, strict=True):
        gradients = [next(slopes) for _ in open_gates.by_shape]
        used = [_by_example(g[0], len(losses), block) for g in gradients if g is not None]
        # a block that did not run (cross-attention without an encoder) is unused anyway
        unused += [block] if gradients and not used else []
        zeros = losses.detach().new_zeros(len(losses), 1, open_gates.n_heads)
        result.append(torch.cat(used or [zeros], 1))
    check_unused(model, batch, loss, unused)
    if watch:
        _check_derivatives(_Losses(model, batch, loss, blocks), result, watch.seen)
    return result


class _OpenGates:
    """Gates of a block's heads, all 1 and requiring a gradient: (1, row, position, head).

    They are created when the block runs. Layers that share a module share them, and passes that
    activation checkpointing repeats use them again.
    """

    def __init__(self, n_heads: int) -> None:
        self.n_heads = n_heads
        self.by_shape: dict[torch.Size, Tensor] = {}

    def __call__(self, context: Tensor) -> Tensor:
        shape = context.shape[:-1]
        if shape not in self.by_shape:
            self.by_shape[shape] = context.new_ones(1, *shape, self.n_heads, requires_grad=True)
        return self.by_shape[shape]


def _by_example(gradient: Tensor, n: int, block: AttentionLayer) -> Tensor:
    """(rows, position, head) -> (example, positions of its rows, head)."""
    if not block.batch_first and n > 1:
        raise ValueError(
            f"{block.path} gets its examples as {tuple(gradient.shape)}, windowed, flattened or "
            "transposed, so they cannot be told apart. Give batches of one example"
        )
    if block.batch_first and len(gradient) % n:
        raise ValueError(
            f"{block.path} runs on {len(gradient)} rows for {n} examples, and which rows belong to "
            "which example is not known. Give batches of one example"
        )
    return gradient.flatten(0, -2).unflatten(0, (n, -1))


def batch_gradients(
    model: nn.Module,
    batch: Batch,
    blocks: Sequence[AttentionLayer],
    loss: Loss | None,
    oom_limit: OomLimit | None = None,
) -> list[Tensor]:
    """:func:`gate_gradients` of a batch on the model's device, computed by :func:`in_parts`."""
    return in_parts(
        model, batch, blocks, lambda part: gate_gradients(model, part, blocks, loss), oom_limit
    )


def in_parts(
    model: nn.Module,
    batch: Batch,
    blocks: Sequence[AttentionLayer],
    compute: Callable[[Batch], list[Tensor]],
    oom_limit: OomLimit | None,
) -> list[Tensor]:
    """Compute tensors ``(example, …)`` of a batch in evaluation mode, in parts, and join them.

    A batch that does not fit in memory is halved, and one whose examples the model windows or
    flattens is taken one by one: an example's derivatives do not depend on the others.
    """

    def joined(parts: list[list[Tensor]]) -> list[Tensor]:
        return [torch.cat(tensors) for tensors in zip(*parts, strict=True)]

    n = 0 if all(block.batch_first for block in blocks) else n_rows(batch)
    with eval_mode(model, frozen=True):
        if n > 1:
            return joined([compute(rows(batch, slice(i, i + 1))) for i in range(n)])
        return split_on_oom(compute, batch, joined, oom_limit)


def prove_gradients(
    model: nn.Module, batch: Batch, blocks: Sequence[AttentionLayer], loss: Loss | None
) -> None:
    """Raise the errors of :func:`gate_gradients`, unless model and loss are trusted already."""
    if not _is_trusted(model, loss):
        batch_gradients(model, batch, blocks, loss)


def example_losses(model: nn.Module, batch: Batch, loss: Loss | None) -> Tensor:
    """Each example's loss, (batch,); the model's default loss if none is given.

    Raises:
        TypeError: a loss that does not take outputs and a batch, or does not return a tensor.
        ValueError: a loss that is not one number per example, or a model without a known default.
    """
    loss_of = loss or default_loss(model)
    with first_position_alone(model, loss):
        outputs = model(**(model_inputs(model, batch) if loss is None else batch))
    try:
        losses = loss_of(outputs, batch)
    except (TypeError, AttributeError) as error:
        name = getattr(loss_of, "__name__", type(loss_of).__name__)
        raise TypeError(
            f"the loss {name} failed on the model's outputs and the batch: {one_line(error, 160)}. "
            "Give a function of both, such as lambda outputs, batch: torch.nn.functional."
            "cross_entropy(outputs.logits, batch['labels'], reduction='none')"
        ) from error
    if not isinstance(losses, Tensor):
        raise TypeError(
            f"the loss is a {type(losses).__name__}, not a tensor of one number per example"
        )
    # examples are the rows of the labels, or of any input if there are no labels
    labels = [batch[name] for name in ("labels", "start_positions") if name in batch]
    tensors = [x for x in labels or batch.values() if isinstance(x, Tensor) and x.ndim]
    sizes = sorted({len(x) for x in tensors})
    if losses.ndim != 1 or len(losses) not in sizes:
        raise ValueError(
            f"the loss has shape {tuple(losses.shape)} for {' or '.join(map(str, sizes))} examples, "
            "expected (batch,). Give one number per example, neither their mean nor their sum"
        )
    return losses


def differentiable_losses(model: nn.Module, batch: Batch, loss: Loss | None) -> Tensor:
    """Like :func:`example_losses`, but raise ValueError if the losses have no gradient."""
    if torch.is_inference_mode_enabled():
        raise ValueError(
            "there are no gradients under torch.inference_mode. Call this outside of it "
            "(torch.no_grad does no harm), or use a criterion without gradients"
        )
    for path, module in model.named_modules():
        if type(module).__module__.startswith(_NO_GRADIENT):
            raise ValueError(
                f"{path} is quantised for inference ({type(module).__module__}) and passes no "
                "gradient on. Score heads before quantising, or by a criterion without gradients"
            )
    losses = example_losses(model, batch, loss)
    if not losses.requires_grad:
        raise ValueError(
            "the loss has no gradient in any head: somewhere between them it is detached, or "
            "computed without gradients (quantised layers, .item(), torch.no_grad)"
        )
    return losses


def check_unused(
    model: nn.Module, batch: Batch, loss: Loss | None, unused: Sequence[AttentionLayer]
) -> None:
    """Raises ValueError where the loss depends on heads that autograd did not reach."""
    unused = [block for block in unused if block.kept_heads]
    if not unused:
        return

    def without(closed: Sequence[AttentionLayer]) -> Tensor:
        with gated(model, [torch.zeros(len(block.kept_heads)) for block in closed], closed):
            return example_losses(model, batch, loss)

    with torch.no_grad():
        whole = without([])
        if torch.equal(whole, without(unused)):
            return
        used = [block.path for block in unused if not torch.equal(whole, without([block]))]
    raise ValueError(
        f"the loss depends on the heads of {', '.join(used) or 'layers taken together'}, but no "
        "gradient reaches them: something in between is detached or has no derivative "
        "(quantised layers, torch.no_grad). Score the model before it is changed in this way"
    )


def check_examples_independent(model: nn.Module, batch: Batch, loss: Loss | None) -> None:
    """Raises ValueError where an example's loss depends on the others: Eq. 2 takes each alone.

    The last example is run alone and with the one before it. A batch that cannot be split, because
    some tensor does not have one row per example, is not checked.
    """
    n = n_rows(batch)
    if n <= 1:
        return
    with eval_mode(model), torch.no_grad():
        alone, in_pair = (
            example_losses(model, rows(batch, slice(n - size, n)), loss)[-1].cpu().double()
            for size in (1, 2)
        )
    # rounding depends on the batch size; some code rounds to float32 inside a float64 model
    precision = min(max(rounding(model) ** 0.5, 1e-6), 0.1)
    if not torch.allclose(alone, in_pair, rtol=precision, atol=precision, equal_nan=True):
        raise ValueError(
            f"the last example's loss is {alone.item():.4g} alone and {in_pair.item():.4g} beside "
            "another: examples interact, and Eq. 2 is of each example's own loss. Give a loss of each "
            "example alone, or what belongs together as one example with one number as its loss"
        )


class _Watch(TorchFunctionMode):
    """Notes where the model's code, run inside, drops the gradient of a tensor that has one."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = ""  # the first such place, and what happens there

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the function and examine its result."""
        result = func(*args, **(kwargs or {}))
        if not isinstance(result, Tensor) or not result.is_floating_point() or result.requires_grad:
            return result
        name = getattr(func, "__name__", "")
        new = name.endswith("_like") or name.startswith("new_")
        has_gradient = any(isinstance(arg, Tensor) and arg.requires_grad for arg in args)
        if has_gradient and not new and not self.seen and (line := _running_line()):
            self.seen = f"{line} goes on without a gradient"
        return result

    def look_back(self, losses: Tensor) -> None:
        """Look for backward passes that are not PyTorch's own in the graph of the losses."""
        custom = next((n for n in graph_nodes(losses) if isinstance(n, BackwardCFunction)), None)
        if custom is not None and not self.seen:
            self.seen = f"{type(custom).__name__} is a custom backward pass"


def _running_line() -> str:
    """File and line of the model code that is running; empty for a hook of this library."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_code.co_filename.startswith(_TORCH):
        frame = frame.f_back
    file = frame.f_code.co_filename
    return "" if file.startswith(_HERE) else f"{Path(file).name}:{frame.f_lineno}"


class _Trusted(weakref.WeakKeyDictionary):
    """Loss -> the model code for which the gradient of that loss was found to be right.

    It is stored in an attribute of the model, which copies of the model keep and files do not.
    """

    def __reduce__(self) -> tuple:
        return _Trusted, ()


_MEMORY = "_headprune_trusted"


def _is_trusted(model: nn.Module, loss: Loss | None) -> bool:
    with suppress(TypeError):  # a loss that cannot be a key is watched again
        return model.__dict__.get(_MEMORY, {}).get(loss or _is_trusted) == _code_of(model)
    return False


def _code_of(model: nn.Module) -> list[Any]:
    """The code of a model's passes: classes, replaced forwards, hooks except this library's."""
    code: list[Any] = []
    for module in model.modules():
        hooks = [*module._forward_pre_hooks.values(), *module._forward_hooks.values()]
        called = (getattr(f, "__code__", type(f)) for f in (module.__dict__.get("forward"), *hooks))
        code.append(type(module))
        code += [c for c in called if not getattr(c, "co_filename", "").startswith(_HERE)]
    return code


@dataclass(frozen=True)
class _Losses:
    """Each example's loss, in float64, with all gates moved from 1 by a step along a direction."""

    model: nn.Module
    batch: Batch
    loss: Loss | None
    blocks: Sequence[AttentionLayer]

    def __call__(self, direction: Tensor, step: float) -> Tensor:
        gates = (1 + step * direction).split([len(block.kept_heads) for block in self.blocks])
        with torch.no_grad(), gated(self.model, gates, self.blocks):
            return example_losses(self.model, self.batch, self.loss).cpu().double()

    def cast(self, precision: str) -> _Losses:
        """The losses of a copy of the model in another precision, ``"double"`` or ``"float"``."""
        # the method of that name, unlike .to, leaves complex numbers alone
        model = getattr(copy.deepcopy(self.model), precision)()
        batch = {
            name: getattr(x, precision)() if isinstance(x, Tensor) and x.is_floating_point() else x
            for name, x in self.batch.items()
        }
        return replace(self, model=model, batch=batch)


def _check_derivatives(losses: _Losses, gradients: Sequence[Tensor], seen: str) -> None:
    """Reject gradients that finite differences contradict, where ``seen`` gives a reason to check.

    Warns where the differences are not accurate enough to tell.
    """
    model, loss = losses.model, losses.loss
    if seen:
        problem, exact = _compare(losses, _slopes(gradients))
        advice = "by a criterion without gradients, such as by='greedy' or 'entropy'"
        if problem:
            raise ValueError(
                f"a gradient in {type(model).__name__} is not the derivative of the loss "
                f"({seen}; {problem}). Score its heads {advice}"
            )
        if exact > _TELLING:
            warnings.warn(
                f"the gradient in {type(model).__name__} may not be the derivative of the loss "
                f"({seen}; finite differences, exact to {exact:.1%} of it, cannot tell). "
                f"Score its heads in a higher precision, or {advice}",
                stacklevel=2,
            )
    with suppress(TypeError):
        model.__dict__.setdefault(_MEMORY, _Trusted())[loss or _is_trusted] = _code_of(model)


def _compare(losses: _Losses, slopes: Tensor) -> tuple[str, float]:
    """What is wrong with the gradients, if anything, and the error of the differences.

    A copy of the model in float64 (float32 on Apple's GPUs) tells a wrong gradient from a rounded
    one. Where no copy is possible (no memory, operators of one precision), or where its gradient
    differs from the model's, the model's own differences decide.
    """
    unit = max(rounding(losses.model), torch.finfo(torch.float64).eps)
    device = next(losses.model.parameters()).device.type
    for precision in ("double", "float"):
        eps = torch.finfo(getattr(torch, precision)).eps
        if eps >= unit:
            break
        # if the model's code fails in another precision, its own differences remain
        with suppress(Exception), torch.autocast(device, enabled=False):
            copied = losses.cast(precision)
            gradients = gate_gradients(
                copied.model, copied.batch, losses.blocks, losses.loss, checked=False
            )
            exact = _slopes(gradients)
            problem, bound = _differences(copied, exact, eps)
            apart = (slopes - exact).norm(dim=0) * _weights(exact, unit)
            speaks_for_model = bound <= _TELLING and float(apart.square().mean()) <= unit
            if problem or speaks_for_model:
                return problem, bound
    return _differences(losses, slopes, unit)


def _slopes(gradients: Sequence[Tensor]) -> Tensor:
    """Derivatives with respect to the gates, (example, head of any block), in float64."""
    return torch.cat([gradient.sum(1).cpu().double() for gradient in gradients], 1)


def _weights(slopes: Tensor, unit: float) -> Tensor:
    """One over the norm of each head's slopes, (head,): an error in a small head counts as much.

    Slopes below ``unit ** (1 / 3)`` of the largest are mostly rounding.
    """
    sizes = slopes.norm(dim=0)
    return 1 / sizes.clamp(min=max(unit ** (1 / 3) * float(sizes.max()), 1e-300))


def _differences(losses: _Losses, slopes: Tensor, unit: float) -> tuple[str, float]:
    """How finite differences contradict the slopes, if they do, and the error of the differences.

    Two directions are tried: all gates alike, then the gates of small heads more. ``unit`` is the
    relative rounding of one operation. The error is relative to the slopes' norm, and infinite
    where losses or slopes are not finite.
    """
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(0, 2, slopes.shape[1:], generator=generator).double() * 2 - 1
    # Fourth differences of close values are rounding alone, since the smooth part cancels; their
    # variance is 8! / 4!**2 = 70 times that of a value (Moré and Wild 2011).
    spacing = 8 * max(unit, torch.finfo(torch.float32).eps)  # code may round to float32 anywhere
    values = torch.stack([losses(signs, step * spacing) for step in range(-3, 4)])
    variance, at = float(values.diff(n=4, dim=0).square().sum(1).mean() / 70), values[3]
    noise = max(variance**0.5, unit * float(at.norm()))
    if not (math.isfinite(noise) and slopes.isfinite().all()):
        return "", math.inf
    unit = max(unit, noise / max(float(at.norm()), noise)) if noise else unit
    weights = _weights(slopes, unit)
    # powers of two: no gate is rounded
    scaled = signs * 2 ** (weights / weights.max()).log2().round()
    exact = 0.0
    for direction in (signs, scaled):
        tolerance = unit**0.5 * float((slopes * direction).norm())
        expected, bound = _derivative(losses, direction, at, noise, unit, tolerance)
        actual = slopes @ direction
        apart = float((actual - expected).norm())
        if apart > bound + tolerance:
            return (
                f"autograd says {actual.norm():.4g}, finite differences {expected.norm():.4g}, "
                f"{apart:.2g} apart and exact to {bound:.2g}"
            ), 0.0
        if direction is signs and tolerance:
            exact = bound / tolerance * unit**0.5
    return "", exact


def _derivative(
    losses: _Losses, direction: Tensor, at: Tensor, noise: float, unit: float, enough: float
) -> tuple[Tensor, float]:
    """Each example's derivative along a direction of the gates, and a bound on its error's norm.

    Central differences at halved steps are extrapolated (Richardson). Their error bound adds up the
    difference of two extrapolations, the noise of the losses, and kinks: there the differences to
    either side do not approach each other in proportion to the step. Steps are halved until the
    bound is at most ``enough``. ``at`` are the losses with all gates open.
    """
    best, bound = torch.full_like(at, math.nan), math.inf
    # errors of curvature and of rounding are then of similar size
    step = 2.0 ** math.floor(math.log2(min(unit**0.2, 0.5)))
    odd: list[Tensor] = []
    even: list[Tensor] = []
    while len(odd) < 3 or (bound > enough and 2 * noise / step < bound and step > unit):
        ahead, back = losses(direction, step), losses(direction, -step)
        odd.append((ahead - back) / (2 * step))
        even.append((ahead + back - 2 * at) / (2 * step))
        if len(odd) > 2:
            coarse, fine = ((4 * short - long) / 3 for long, short in pairwise(odd[-3:]))
            kinks = sum(float((long - 2 * short).norm()) for long, short in pairwise(even[-3:]))
            exact = float((fine - coarse).norm()) + kinks + 2 * noise / step
            if exact < bound:
                best, bound = fine, exact
        step /= 2
    return best, bound
