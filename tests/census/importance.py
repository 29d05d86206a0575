"""The law of importance: a head's importance is the finite difference of the loss in its gate."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from census.cases import outputs_of, tensors_of
from headprune_lib import head_importance, masked_heads, ones_mask
from headprune_lib.specs import AttentionLayer
from headprune_lib.utils import Batch

_STEPS = (2.0**-9, 2.0**-12, 2.0**-6)  # changes of a gate; exact in float32


def importance_problem(
    model: nn.Module, batch: Batch, extra: dict[str, Any], blocks: list[AttentionLayer]
) -> str:
    """The gap between importance and finite differences, in words; empty if there is none.

    A problem, which rounding may feign, is checked again in double precision.

    Args:
        extra: further arguments of the model that are not tensors.

    Raises:
        ValueError: importance is refused.
    """
    with _given(model, extra):
        problem = _problem(model, batch, blocks)
    if problem and (double := _in_double(model, batch)):
        with _given(double[0], _doubled(extra)):
            problem = _problem(*double, blocks, (2.0**-18, 2.0**-22), 1e-3)
    return problem


def _problem(
    model: nn.Module,
    batch: Batch,
    blocks: list[AttentionLayer],
    steps: tuple[float, ...] = _STEPS,
    limit: float = 0.02,
) -> str:
    """The gap between importance and finite differences, in words; empty if there is none."""
    try:
        scores = head_importance(model, [batch], loss=_loss, normalize=None)
    except RuntimeError as error:
        raise ValueError(f"{error}".partition("\n")[0]) from None
    rounding = 1.7 * torch.finfo(next(model.parameters()).dtype).eps
    for kind, layer, head in _some_heads(blocks):
        found, expected = float(scores[kind][layer, head]), []
        for step in steps:  # may be too long where the loss bends, too short where it is rounded
            difference, size = _difference(model, batch, (kind, layer, head), step)
            expected.append(f"{difference:.4g}")
            if abs(found - difference) < limit * abs(difference) + rounding / step * size + 1e-6:
                break
        else:
            return f"{kind} {layer} {head}: {found:.4g}, finite differences {', '.join(expected)}"
    return ""


def _in_double(model: nn.Module, batch: Batch) -> tuple[nn.Module, Batch] | None:
    """The model and a batch in double precision; None if its code does not run in it."""
    double, inputs = copy.deepcopy(model).double(), _doubled(batch)
    try:
        outputs_of(double, inputs)
    except Exception:  # its code may raise anything
        return None
    return double, inputs


def _doubled(inputs: dict[str, Any]) -> dict[str, Any]:
    return {
        k: v.double() if isinstance(v, Tensor) and v.is_floating_point() else v
        for k, v in inputs.items()
    }


def _difference(
    model: nn.Module, batch: Batch, place: tuple[str, int, int], step: float
) -> tuple[float, float]:
    """The mean size of the examples' central finite differences in a gate, and of their losses."""
    kind, layer, head = place
    losses = []
    for sign in (1, -1):
        mask = ones_mask(model)
        mask[kind][layer, head] = 1 + sign * step
        with masked_heads(model, mask), torch.no_grad():
            torch.manual_seed(0)
            losses.append(_loss(model(**batch), batch))
    difference = (losses[0] - losses[1]) / (2 * step)
    return float(difference.abs().mean()), float(losses[0].abs().mean())


def _some_heads(blocks: list[AttentionLayer]) -> list[tuple[str, int, int]]:
    """For each kind, the first head of the first layer and the last head of the last layer."""
    first = {b.kind: (b.kind, b.layer, 0) for b in reversed(blocks)}
    last = {b.kind: (b.kind, b.layer, b.n_heads - 1) for b in blocks}
    return sorted({*first.values(), *last.values()})


def _loss(outputs: Any, batch: Batch) -> Tensor:
    """A fixed random sum of what the model returns for each example, (example,)."""
    n = next(len(one) for one in batch.values() if isinstance(one, Tensor))
    total = torch.zeros(n, dtype=torch.float64)
    for number, tensor in enumerate(tensors_of(outputs)):
        rows = tensor if len(tensor) == n else tensor[None] if n == 1 else None
        if rows is None:
            continue
        flat = rows.reshape(n, -1).double().nan_to_num(neginf=0, posinf=0)
        generator = torch.Generator().manual_seed(number)
        weights = torch.randn(flat.shape[1], generator=generator, dtype=torch.float64)
        total = total + flat @ weights / len(weights) ** 0.5
    return total


@contextmanager
def _given(model: nn.Module, extra: dict[str, Any]) -> Iterator[None]:
    """Pass arguments that are not tensors to each forward pass while the context is active."""
    handle = model.register_forward_pre_hook(
        lambda _module, args, kwargs: (args, {**extra, **kwargs}), with_kwargs=True
    )
    try:
        yield
    finally:
        handle.remove()
