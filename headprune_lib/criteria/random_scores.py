"""No criterion at all, to compare others with: scores at random."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from headprune_lib.batching import Batch
from headprune_lib.criteria.gradients import on_grid
from headprune_lib.criteria.registry import Look, register_criterion
from headprune_lib.heads import HeadTensors, find_heads
from headprune_lib.losses import Loss


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
