"""Checks that an exported model computes what the original does."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headprune_lib.example_inputs import Inputs, example_inputs
from headprune_lib.messages import one_line
from headprune_lib.utils import ensure_device, eval_mode, to_device, uncompiled


def unwrap_compiled(model: Any) -> Any:
    """The model without the wrapper of torch.compile; its weights must be in memory."""
    model = uncompiled(model)
    ensure_device(model, None)
    return model


def inputs_for(model: nn.Module) -> Inputs:
    """Random inputs that the model runs on; ValueError if none of those tried works."""
    problem: Exception | None = None
    for inputs in example_inputs(model):
        placed = to_device(inputs, next(model.parameters()).device)
        try:
            with torch.no_grad(), eval_mode(model):
                model(**placed)
        except Exception as error:  # models raise all kinds of errors for unsuitable inputs
            problem = problem or error
        else:
            return placed
    raise ValueError(
        f"no random inputs were found that {type(model).__name__} runs on, so the export "
        f"cannot be compared with it ({one_line(problem) if problem else 'none'})"
    )


def check_same(model: nn.Module, other: nn.Module) -> float:
    """Largest difference between two models' outputs on the same random inputs."""
    inputs = inputs_for(model)
    with torch.no_grad(), eval_mode(model):
        expected = floating(model(**inputs))
    with torch.no_grad():
        actual = floating(other(**inputs))
    return difference(expected, actual, model)


def difference(
    here: list[Tensor], there: list[Tensor], model: nn.Module, tolerance: float = 1e-5
) -> float:
    """Largest difference between two lists of outputs; ValueError if it is more than rounding.

    Up to ``tolerance`` times the largest output (at least 1) is allowed, more in coarse precision.
    """
    shapes = [[tuple(output.shape) for output in outputs] for outputs in (here, there)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"the export's outputs have shapes {shapes[1]}, expected {shapes[0]}")
    size = max([1.0, *(float(output.abs().max()) for output in here if output.numel())])
    kind = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    allowed = size * max(tolerance, 4 * torch.finfo(kind).eps)
    gaps = [float((a - b).abs().max()) for a, b in zip(here, there, strict=True) if a.numel()]
    largest = max(gaps, default=0.0)
    if not largest <= allowed:
        raise ValueError(
            f"the export differs from the model by {largest:.2g}, more than rounding "
            f"({allowed:.2g})"
        )
    return largest


def floating(outputs: Any) -> list[Tensor]:
    """The first floating-point output of a model: logits, or hidden states."""
    values = outputs.values() if hasattr(outputs, "values") else outputs
    tensors = [x for x in values if isinstance(x, Tensor) and x.is_floating_point()]
    return [tensor.double() for tensor in tensors[:1]]
