"""Criteria that read no text: weights alone, or nothing."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from headprune_lib.batching import Batch
from headprune_lib.criteria.registry import Look, register_criterion
from headprune_lib.gradients import on_grid
from headprune_lib.heads import AttentionBlock, HeadTensors, find_heads
from headprune_lib.losses import Loss
from headprune_lib.slicing import value_rows


@register_criterion(
    "magnitude",
    label="magnitude of the weights",
    formula=r"\| W_V^h W_O^h \|_F",
    source="the product of a head's value and output projections (its OV circuit, Elhage et al. 2021)",
    look=Look("grey", "--"),
    cost="none: weights alone",
)
def magnitude(
    model: nn.Module,
    batches: Iterable[Batch] = (),
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
) -> HeadTensors:
    """Frobenius norm of value times output projection; nothing but the weights is read.

    Raises:
        ValueError: projections that hold no plain weights (quantised).
    """
    blocks = find_heads(model)
    return on_grid(model, blocks, [_norms(model, block) for block in blocks])


def _norms(model: nn.Module, block: AttentionBlock) -> Tensor:
    """(kept heads,): the norm of each head's product, without ever making the product."""
    n, width = len(block.kept), block.width
    if not n:
        return torch.zeros(0, dtype=torch.float64)
    value = _values(model, block)  # (value heads, width, hidden)
    value = value.repeat_interleave(n // len(value), 0)
    output = _matrix(model, block, "output").unflatten(1, (n, width)).transpose(0, 1)
    # ||O V||^2 is the sum of (O^T O) * (V V^T), both (width, width)
    inside = (output.mT @ output) * (value @ value.mT)
    return inside.sum((1, 2)).clamp(min=0).sqrt()


def _values(model: nn.Module, block: AttentionBlock) -> Tensor:
    """The rows of each value head (value heads, width, hidden)."""
    if not block.architecture.makes_keys:
        raise ValueError(
            f"{block.path} reads the values that another layer makes, so that its weights alone do "
            "not tell its heads' size; score by a criterion that runs the model"
        )
    part = "fused" if block.architecture.fused else "value"
    matrix, rows = _matrix(model, block, part), value_rows(model, block, block.kept)
    if len(rows) * block.group != len(block.kept) * block.width:
        raise ValueError(
            f"{block.path}: one projection makes keys and values of a head, and which of its rows "
            "are the values is not known; score by a criterion that runs the model"
        )
    return matrix[rows].unflatten(0, (-1, block.width))


def _matrix(model: nn.Module, block: AttentionBlock, part: str) -> Tensor:
    """The weight of a projection as (out, in), in float64 on the CPU."""
    module = block.part(model, part)
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or not weight.is_floating_point():
        raise ValueError(
            f"{block.path}, {part}: {type(module).__name__} holds no plain weights (quantised?); "
            "score the model before it is quantised, or by a criterion that runs it"
        )
    weight = weight.detach().double().cpu()
    return weight.T if isinstance(module, Conv1D) else weight


@register_criterion(
    "random",
    label="random",
    formula=r"u_h \sim \mathrm{Uniform}(0, 1)",
    source="the baseline that any criterion has to beat",
    look=Look("grey", "-"),
    cost="none",
)
def random_scores(
    model: nn.Module,
    batches: Iterable[Batch] = (),
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
    seed: int = 0,
) -> HeadTensors:
    """Uniform on 0 to 1, the same for a seed and a model's shape; nothing but the model is read."""
    generator = torch.Generator().manual_seed(seed)
    blocks = find_heads(model)
    # drawn for removed heads as well: those left keep their scores when others go
    drawn = [
        torch.rand(block.n_heads, generator=generator, dtype=torch.float64) for block in blocks
    ]
    return on_grid(
        model, blocks, [each[list(block.kept)] for block, each in zip(blocks, drawn, strict=True)]
    )
