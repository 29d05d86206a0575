"""Whether the gradient that a model's code gives is the derivative of what it computes.

Code that detaches, computes without gradients or brings a backward pass of its own may give
another: a part of the way from the heads to the loss is then missing, or made up. Where such code
is seen, the gradient is held against finite differences before it is believed.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.overrides import TorchFunctionMode

from headprune_lib.batching import Batch
from headprune_lib.criteria.example_losses import example_losses
from headprune_lib.heads import AttentionBlock, HeadTensors, full_mask
from headprune_lib.losses import Loss
from headprune_lib.masking import masked_heads
from headprune_lib.running import rounding

# of the gates, exact in float32: too long where the loss bends, too short where it is rounded
_STEPS = (2.0**-9, 2.0**-12, 2.0**-6, 2.0**-14, 2.0**-16)
_LIMIT = 0.01  # of the derivative
_AGREEING = 2  # steps: where the loss jumps, one of five agrees by chance
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


def check_derivatives(
    model: nn.Module,
    batch: Batch,
    loss: Loss | None,
    blocks: Sequence[AttentionBlock],
    gradients: Sequence[Tensor],
    watch: Watch,
) -> None:
    """Hold a batch's gradients against finite differences, where ``watch`` saw a reason to.

    Args:
        gradients: (example, position, kept heads) of each block.

    Raises:
        ValueError: they are not the derivatives of the losses; says what was seen.
    """
    found = _other_derivative(model, batch, loss, blocks, gradients) if watch.seen else ""
    if found:
        raise ValueError(
            f"a gradient in {type(model).__name__} is not the derivative of the loss "
            f"({watch.seen}; {found}). Score its heads by a criterion that takes none, such as "
            "by='greedy' or 'entropy'"
        )
    with suppress(TypeError):  # a loss that cannot be remembered is watched again
        _TRUSTED.setdefault(model, weakref.WeakSet()).add(loss or watching)


@torch.no_grad()
def _other_derivative(
    model: nn.Module,
    batch: Batch,
    loss: Loss | None,
    blocks: Sequence[AttentionBlock],
    gradients: Sequence[Tensor],
) -> str:
    """What finite differences say in some directions of the gates; empty where it is the same."""
    full = full_mask(model)

    def losses(way: HeadTensors, step: float) -> Tensor:
        with masked_heads(model, {kind: full[kind] + step * way[kind] for kind in full}):
            return example_losses(model, batch, loss).double().cpu()

    nowhere = {kind: torch.zeros_like(one) for kind, one in full.items()}
    at, again = losses(nowhere, 0), losses(nowhere, 0)
    # what two passes differ by, and what rounding does to each
    noise = (at - again).norm() + 2 * rounding(model) * at.norm()
    for way in _ways(full, blocks, gradients):
        slopes = torch.zeros(len(at), dtype=torch.float64)
        for block, gradient in zip(blocks, gradients, strict=True):
            along = way[block.kind][block.layer, list(block.kept)]
            slopes += gradient.sum(1).double().cpu() @ along.double()
        said, agreed = [], 0
        for step in _STEPS:
            differences = (losses(way, step) - losses(way, -step)) / (2 * step)
            size = max(differences.norm(), slopes.norm())
            if noise / step > _LIMIT * size:
                continue  # too coarse a precision to tell
            if (differences - slopes).norm() > _LIMIT * size:
                said.append(f"{differences.norm():.4g}")
                continue
            agreed += 1
            if agreed == _AGREEING:
                break
        else:
            if said:
                return f"autograd says {slopes.norm():.4g}, finite differences {', '.join(said)}"
    return ""


def _ways(
    full: HeadTensors, blocks: Sequence[AttentionBlock], gradients: Sequence[Tensor]
) -> Iterator[HeadTensors]:
    """Directions of the gates: of all alike, then of those more that the loss depends on less, so
    that what is wrong with these counts as much, then of the first block's and the last one's.
    """
    generator = torch.Generator().manual_seed(0)
    sizes = [gradient.sum(1).double().norm(dim=0).float().cpu() for gradient in gradients]
    # of all blocks: one that the loss does not depend on would be the whole of a direction
    least = 1e-3 * max(float(size.max()) for size in sizes if len(size)) + 1e-30
    for chosen in (None, "equal", blocks[0], blocks[-1]):
        way = {kind: torch.zeros_like(one) for kind, one in full.items()}
        for block, size in zip(blocks, sizes, strict=True):
            drawn = torch.randn(len(block.kept), generator=generator)
            if chosen == "equal":
                drawn = drawn / size.clamp(min=least)
            if chosen in (None, "equal", block):
                way[block.kind][block.layer, list(block.kept)] = drawn
        most = max(float(one.nan_to_num().abs().max()) for one in way.values())
        yield {kind: one / (most or 1) for kind, one in way.items()}
