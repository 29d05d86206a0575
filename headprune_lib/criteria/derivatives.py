"""Whether the gradient that a model's code gives is the derivative of what it computes.

Code that detaches, computes without gradients or brings a backward pass of its own may give
another: a part of the way from the heads to the loss is then missing, or made up. Where such code
is seen, the gradient is compared with finite differences before it is believed.

How far apart the two may be is computed, and so is the same on every processor. Differences are
exact to what two extrapolations of them differ by, to the measured noise of the losses, and to
kinks. A gradient may lose half of the digits that the losses have (``unit ** 0.5``: 1.5e-8 in
float64, 3.5e-4 in float32): rounding in a backward pass takes far fewer, errors in code far more.
"""

from __future__ import annotations

import copy
import math
import sys
import warnings
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.overrides import TorchFunctionMode

from headprune_lib.batching import Batch
from headprune_lib.criteria.example_losses import example_losses
from headprune_lib.heads import AttentionBlock
from headprune_lib.hooking import hooking
from headprune_lib.losses import Loss
from headprune_lib.running import rounding

_TELLING = 2.0**-8  # of the slopes: less exact differences would let an error of 0.5% pass
_TORCH = str(Path(torch.__file__).parent)
_HERE = str(Path(__file__).parents[1])

_TRUSTED: weakref.WeakKeyDictionary[nn.Module, weakref.WeakSet] = weakref.WeakKeyDictionary()


class Watch(TorchFunctionMode):
    """Inside, where in a model's code something that has a gradient goes on without it.

    Attributes:
        seen: the place and what is done there; empty where nothing was seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen = ""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """As the function; what it returns is looked at."""
        made = func(*args, **(kwargs or {}))
        if (
            not self.seen
            and isinstance(made, Tensor)
            and made.is_floating_point()
            and not made.requires_grad
            and any(isinstance(one, Tensor) and one.requires_grad for one in args)
        ):
            name = getattr(func, "__name__", "")
            if not name.endswith("_like") and not name.startswith("new_"):
                place = _place()
                self.seen = f"{place} goes on without a gradient" if place else ""
        return made

    def look_back(self, losses: Tensor) -> None:
        """Look for backward passes that are no part of PyTorch on the way back from the losses."""
        waiting, known = [losses.grad_fn], set()
        while waiting and not self.seen:
            node = waiting.pop()
            if node is None or node in known:
                continue
            known.add(node)
            if isinstance(node, BackwardCFunction):
                self.seen = f"{type(node).__name__} is a backward pass of its own"
            waiting += [further for further, _ in node.next_functions]


def _place() -> str:
    """File and line of the model's code that is running; empty where it is a hook of this library."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_code.co_filename.startswith(_TORCH):
        frame = frame.f_back
    if frame.f_code.co_filename.startswith(_HERE):
        return ""
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


@contextmanager
def watching(model: nn.Module, loss: Loss | None) -> Iterator[Watch | None]:
    """Inside, the forward pass is watched; None where this model and loss are trusted already."""
    key = loss or watching
    if isinstance(key, Hashable) and key in _TRUSTED.get(model, ()):
        yield None
        return
    with Watch() as watch:
        yield watch


@contextmanager
def opened(
    model: nn.Module, blocks: Sequence[AttentionBlock], gates: Sequence[Tensor]
) -> Iterator[None]:
    """Inside, each head's output is multiplied by its gate, and a gradient flows through the gates.

    Args:
        gates: one tensor (kept heads,) a block. Masks, which need no gradient, are
            :func:`headprune_lib.masked_heads`.
    """
    outputs = [block.part(model, "output") for block in blocks]
    with hooking(outputs), ExitStack() as stack:
        for block, output, gate in zip(blocks, outputs, gates, strict=True):
            hook = output.register_forward_pre_hook(_gate(gate, block.width))
            stack.callback(hook.remove)
        yield


def _gate(gate: Tensor, width: int) -> Callable[[nn.Module, tuple[Tensor, ...]], tuple]:
    def scale(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple:
        return (inputs[0] * gate.to(inputs[0]).repeat_interleave(width), *inputs[1:])

    return scale


def check_derivatives(
    model: nn.Module,
    batch: Batch,
    loss: Loss | None,
    blocks: Sequence[AttentionBlock],
    gradients: Sequence[Tensor],
    watch: Watch,
    gradients_of: Callable[[nn.Module, Batch], Sequence[Tensor]],
) -> None:
    """Compare a batch's gradients with finite differences, where ``watch`` saw a reason to.

    A float64 copy of the model tells a wrong gradient from a rounded one; while it lasts, it takes
    twice the memory of float32 weights. Where there is none (no memory, operators without
    float64), or where it computes another gradient than the model, the model's own differences
    decide.

    Args:
        gradients: one tensor (example, position, kept heads) for each block.
        gradients_of: computes the same of a copy of the model and of the batch, without this check.

    Raises:
        ValueError: the gradients are not the derivatives of the losses; says what was seen.

    Warns:
        UserWarning: no difference is exact enough to tell.
    """
    if watch.seen:
        problem, exact = _compare(model, batch, loss, blocks, gradients, gradients_of)
        if problem:
            raise ValueError(
                f"a gradient in {type(model).__name__} is not the derivative of the loss "
                f"({watch.seen}; {problem}). Score its heads by a criterion that takes none, such "
                "as by='greedy' or 'entropy'"
            )
        if exact > _TELLING:
            warnings.warn(
                f"the gradient in {type(model).__name__} may not be the derivative of the loss "
                f"({watch.seen}; finite differences, exact to {exact:.1%} of it, cannot tell). "
                "Score its heads in a higher precision, or by a criterion without gradients, such "
                "as by='greedy' or 'entropy'",
                stacklevel=2,
            )
    with suppress(TypeError):  # a loss that cannot be remembered is watched again
        _TRUSTED.setdefault(model, weakref.WeakSet()).add(loss or watching)


def _compare(
    model: nn.Module,
    batch: Batch,
    loss: Loss | None,
    blocks: Sequence[AttentionBlock],
    gradients: Sequence[Tensor],
    gradients_of: Callable[[nn.Module, Batch], Sequence[Tensor]],
) -> tuple[str, float]:
    """What is wrong with the gradients, if anything, and what the differences are exact to."""
    slopes = _slopes(gradients)
    unit = max(rounding(model), torch.finfo(torch.float64).eps)
    for precision in (torch.float64, torch.float32):
        if torch.finfo(precision).eps >= unit:
            break
        # whatever the model's code makes of another precision, its own differences are left
        with suppress(Exception), torch.autocast(gradients[0].device.type, enabled=False):
            found = _compare_copy(model, batch, loss, blocks, slopes, unit, gradients_of, precision)
            if found is not None:
                return found
    return _differences(model, batch, loss, blocks, slopes, unit)


def _compare_copy(
    model: nn.Module,
    batch: Batch,
    loss: Loss | None,
    blocks: Sequence[AttentionBlock],
    slopes: Tensor,
    unit: float,
    gradients_of: Callable[[nn.Module, Batch], Sequence[Tensor]],
    precision: torch.dtype,
) -> tuple[str, float] | None:
    """The same of a copy in a higher precision; None where it does not speak for the model."""
    cast = "double" if precision == torch.float64 else "float"  # these leave complex numbers
    copied = getattr(copy.deepcopy(model), cast)()
    inputs = {
        name: getattr(value, cast)()
        if isinstance(value, Tensor) and value.is_floating_point()
        else value
        for name, value in batch.items()
    }
    exact = _slopes(gradients_of(copied, inputs))
    problem, bound = _differences(copied, inputs, loss, blocks, exact, torch.finfo(precision).eps)
    apart = (slopes - exact).norm(dim=0) * _weights(exact, unit)
    same = bound <= _TELLING and float(apart.square().mean()) <= unit
    return (problem, bound) if problem or same else None


def _slopes(gradients: Sequence[Tensor]) -> Tensor:
    """(example, head of any block): each example's derivative in each gate, in float64."""
    return torch.cat([gradient.sum(1).cpu().double() for gradient in gradients], 1)


def _weights(slopes: Tensor, unit: float) -> Tensor:
    """(head,): one over each head's slopes, so that an error in a small head counts as much.

    The slopes of a head that is far smaller than the largest are mostly rounding: its weight is
    that of a head ``unit ** (1 / 3)`` as large as the largest.
    """
    sizes = slopes.norm(dim=0)
    return 1 / sizes.clamp(min=max(unit ** (1 / 3) * float(sizes.max()), 1e-300))


@torch.no_grad()
def _differences(
    model: nn.Module,
    batch: Batch,
    loss: Loss | None,
    blocks: Sequence[AttentionBlock],
    slopes: Tensor,
    unit: float,
) -> tuple[str, float]:
    """What finite differences say against the slopes, if anything, and what they are exact to.

    Two directions are tried: all gates alike, then those of small heads more.

    Args:
        unit: the relative rounding of one operation.

    Returns:
        the exactness as a part of the slopes' norm; infinite where losses or slopes are.
    """

    def losses(direction: Tensor, step: float) -> Tensor:
        gates = (1 + step * direction).split([len(block.kept) for block in blocks])
        with opened(model, blocks, gates):
            return example_losses(model, batch, loss).cpu().double()

    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(0, 2, slopes.shape[1:], generator=generator).double() * 2 - 1
    noise, at = _noise(losses, signs, unit)
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
        found = slopes @ direction
        apart = float((found - expected).norm())
        if apart > bound + tolerance:
            return (
                f"autograd says {found.norm():.4g}, finite differences {expected.norm():.4g}, "
                f"{apart:.2g} apart and exact to {bound:.2g}"
            ), 0.0
        if direction is signs and tolerance:
            exact = bound / tolerance * unit**0.5
    return "", exact


def _noise(
    losses: Callable[[Tensor, float], Tensor], direction: Tensor, unit: float
) -> tuple[float, Tensor]:
    """What rounding adds to the losses of one pass (its norm over examples), and the losses.

    Fourth differences of close values are rounding alone, since what is smooth is gone; their
    variance is 8! / 4!**2 = 70 times that of a value (Moré and Wild 2011).
    """
    spacing = 8 * max(unit, torch.finfo(torch.float32).eps)  # code may round to float32 anywhere
    values = torch.stack([losses(direction, place * spacing) for place in range(-3, 4)])
    variance = float(values.diff(n=4, dim=0).square().sum(1).mean() / 70)
    return max(variance**0.5, unit * float(values[3].norm())), values[3]


def _derivative(
    losses: Callable[[Tensor, float], Tensor],
    direction: Tensor,
    at: Tensor,
    noise: float,
    unit: float,
    enough: float,
) -> tuple[Tensor, float]:
    """Each example's derivative along a direction of the gates, and what its norm is exact to.

    Central differences at halved steps are extrapolated (Richardson), and are exact to what two
    extrapolations differ by, to rounding, and to kinks: these bend the loss, by which the sides'
    differences differ, more than in proportion to the step. The first step is that at which smooth
    bends and rounding count alike; where there are kinks or jumps, shorter ones are more exact.

    Args:
        at: the losses with all gates open.
        enough: an exactness at which no shorter step is tried.
    """
    best, bound = torch.full_like(at, math.nan), math.inf
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
