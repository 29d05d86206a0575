"""Criteria that read no text: by the weights alone, or random."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from headprune_lib.criteria.registry import register_criterion, to_head_tensors
from headprune_lib.discovery import find_heads
from headprune_lib.losses import Loss
from headprune_lib.masking import HeadTensors
from headprune_lib.slicing import head_rows
from headprune_lib.specs import AttentionLayer, matrix_of
from headprune_lib.utils import Batch, Device


@register_criterion("magnitude")
def magnitude(
    model: nn.Module,
    batches: Iterable[Batch] = (),
    *,
    loss: Loss | None = None,
    device: Device = None,
) -> HeadTensors:
    r"""Frobenius norm of value times output projection, no data.

    :math:`\| W_V^h W_O^h \|_F`, the size of what a head can write: its OV circuit (Elhage et al.
    2021).

    Raises:
        ValueError: projections that hold no plain weights (quantised).
    """
    blocks = find_heads(model)
    return to_head_tensors(blocks, [_norms(model, block) for block in blocks])


def _norms(model: nn.Module, block: AttentionLayer) -> Tensor:
    """Norm of each head's product of projections, (kept heads,), without forming the product."""
    n = len(block.kept_heads)
    if not n:
        return torch.zeros(0, dtype=torch.float64)
    if not block.spec.makes_keys:
        raise ValueError(
            f"{block.path} reads the values that another layer makes, so its heads cannot be "
            "scored by their weights alone. Use a criterion that runs the model"
        )
    matrix = _matrix(model, block, "fused" if block.spec.fused else "value")
    rows = head_rows(model, block, block.kept_heads)["value"]
    if len(rows) * block.queries_per_kv != n * block.head_dim:
        raise ValueError(
            f"{block.path}: one projection makes keys and values of a head, and which of its rows "
            "are the values is not known. Use a criterion that runs the model"
        )
    value = matrix[rows].unflatten(0, (-1, block.head_dim))  # (value heads, width, hidden)
    value = value.repeat_interleave(n // len(value), 0)
    output = _matrix(model, block, "output").unflatten(1, (n, block.head_dim)).transpose(0, 1)
    # ||O V||^2 is the sum of (O^T O) * (V V^T), both (width, width)
    inside = (output.mT @ output) * (value @ value.mT)
    return inside.sum((1, 2)).clamp(min=0).sqrt()


def _matrix(model: nn.Module, block: AttentionLayer, part: str) -> Tensor:
    """The weight of a projection as (out, in), in float64 on the CPU."""
    module = block.part(model, part)
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or not weight.is_floating_point():
        raise ValueError(
            f"{block.path}, {part}: {type(module).__name__} has no plain weights (quantised?). "
            "Score the model before it is quantised, or by a criterion that runs it"
        )
    return matrix_of(module).detach().cpu().double()


@register_criterion("random")
def random_scores(
    model: nn.Module,
    batches: Iterable[Batch] = (),
    *,
    loss: Loss | None = None,
    device: Device = None,
    seed: int = 0,
) -> HeadTensors:
    """Uniform on 0 to 1, the baseline that a criterion has to beat.

    Determined by the seed and the model's shape; the batches are not read.
    """
    generator = torch.Generator().manual_seed(seed)
    blocks = find_heads(model)
    # drawn for removed heads as well: those left keep their scores when others are removed
    drawn = [torch.rand(b.n_heads, generator=generator, dtype=torch.float64) for b in blocks]
    left = [values[list(block.kept_heads)] for block, values in zip(blocks, drawn, strict=True)]
    return to_head_tensors(blocks, left)
