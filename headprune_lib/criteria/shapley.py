"""What a head adds to a random set of the others: Shapley values by sampled permutations."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from headprune_lib.batching import Batch, check_batch
from headprune_lib.criteria.example_losses import check_labelled
from headprune_lib.criteria.gradients import on_grid
from headprune_lib.criteria.greedy import mean_loss
from headprune_lib.criteria.registry import Look, register_criterion
from headprune_lib.heads import HeadTensors, find_heads, full_mask
from headprune_lib.losses import Loss


@register_criterion(
    "shapley",
    label="Shapley value",
    formula=r"\mathbb{E}_\pi \left[L(\pi_{<h}) - L(\pi_{\le h})\right]",
    source="Castro et al. 2009, by sampled permutations; Held and Yang 2023 prune heads by it",
    look=Look("brown", ":"),
    cost="as many forward passes of a batch as heads, times the permutations",
)
def shapley(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
    permutations: int = 64,
    seed: int = 0,
) -> HeadTensors:
    """By how much a head lowers the loss when it joins those before it, in nats.

    Each permutation adds the heads one by one to a model without any, on one batch; the batches
    take turns. The values sum to the loss without heads minus the loss with all, on these batches.

    Raises:
        ValueError: no batches, fewer permutations than 1, or a loss that is not one number an
            example.
    """
    if permutations < 1:
        raise ValueError(f"permutations is {permutations}; give at least 1")
    kept, blocks = [check_batch(batch) for batch in batches], find_heads(model)
    if not kept:
        raise ValueError("no batches given: a Shapley value is a mean over at least one example")
    check_labelled(model, kept, loss)
    heads = [(number, head) for number, block in enumerate(blocks) for head in block.kept]
    values = [torch.zeros(block.n_heads, dtype=torch.float64) for block in blocks]
    generator = torch.Generator().manual_seed(seed)
    for turn in range(permutations):
        own = [kept[turn % len(kept)]]
        mask = {kind: torch.zeros_like(ones) for kind, ones in full_mask(model).items()}
        before = mean_loss(model, own, mask, loss=loss, device=device)
        for place in torch.randperm(len(heads), generator=generator).tolist():
            number, head = heads[place]
            mask[blocks[number].kind][blocks[number].layer, head] = 1
            after = mean_loss(model, own, mask, loss=loss, device=device)
            values[number][head] += (before - after) / permutations
            before = after
    left = [row[list(block.kept)] for row, block in zip(values, blocks, strict=True)]
    return on_grid(model, blocks, left)
