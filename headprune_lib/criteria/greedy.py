"""Heads in the order of a greedy search: what costs least goes, and all others are tried again."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from headprune_lib.ablation import one_head_ablation
from headprune_lib.batching import Batch, check_batch
from headprune_lib.criteria.example_losses import check_labelled, example_losses
from headprune_lib.criteria.registry import Look, register_criterion
from headprune_lib.heads import Head, HeadTensors, find_heads, full_mask
from headprune_lib.losses import Loss, default_loss
from headprune_lib.masking import masked_heads
from headprune_lib.orders import prune_schedule
from headprune_lib.running import evaluating, on_device, placed


@register_criterion(
    "greedy",
    label="greedy by the loss",
    formula=r"\arg\min_h \mathbb{E}_x L(x; \xi_h = 0)",
    source="backward elimination; one pass a head that is left and a step",
    look=Look("green", "-"),
    cost="about half as many forward passes as heads, times the steps",
)
def greedy(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
    steps: int = 20,
) -> HeadTensors:
    """The place of each head in the search, 0 (goes first) to 1.

    At each of ``steps`` steps, the loss without each head that is left is measured, and as many of
    them go as keep the pace (:func:`headprune_lib.prune_schedule`), those first that raise the loss
    least. The batches are read once and kept.

    Raises:
        ValueError: no batches, no label that counts, fewer steps than 1, or a loss that is not
            one number an example.
    """
    if steps < 1:
        raise ValueError(f"steps is {steps}; give at least 1")
    kept = [check_batch(batch) for batch in batches]
    check_labelled(model, kept, loss)
    blocks, mask = find_heads(model), full_mask(model)
    left: list[Head] = [(b.kind, b.layer, head) for b in blocks for head in b.kept]
    n, scores = len(left), {k: torch.full_like(v, torch.nan).double() for k, v in mask.items()}
    schedule = prune_schedule(n, steps)
    for done, after in itertools.pairwise(schedule):
        if after == done:  # more steps than heads
            continue
        found = losses_without(model, kept, left, mask, loss=loss, device=device)
        cheapest = sorted(zip(found, left, strict=True), key=lambda pair: pair[0])[: after - done]
        for place, (_, (kind, layer, head)) in enumerate(cheapest, done):
            mask[kind][layer, head] = 0
            scores[kind][layer, head] = place / max(n - 1, 1)
            left.remove((kind, layer, head))
    return scores


def losses_without(
    model: nn.Module,
    batches: Sequence[Batch],
    heads: Sequence[Head],
    mask: HeadTensors,
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
) -> list[float]:
    """Mean loss of an example without each head, and without those that the mask cuts.

    What a head does not change is computed once, but for a loss of one's own, which may want what
    the model makes of the labels.

    Raises:
        ValueError: no batches, or a loss that is not one number an example.
    """
    if loss is None:
        return _swept(model, batches, heads, mask, default_loss(model), device)
    found = []
    for kind, layer, head in heads:
        without = {name: values.clone() for name, values in mask.items()}
        without[kind][layer, head] = 0
        found.append(mean_loss(model, batches, without, loss=loss, device=device))
    return found


def _swept(
    model: nn.Module,
    batches: Sequence[Batch],
    heads: Sequence[Head],
    mask: HeadTensors,
    loss: Loss,
    device: str | torch.device | None,
) -> list[float]:
    totals, count = torch.zeros(len(heads), dtype=torch.float64), 0
    with masked_heads(model, mask):
        for uncut, cut in one_head_ablation(model, batches, reduce=loss, device=device):
            totals += torch.stack([cut[head].double().sum() for head in heads])
            count += len(uncut)
    if not count:
        raise ValueError("no batches given: a loss is a mean over at least one example")
    return (totals / count).tolist()


def mean_loss(
    model: nn.Module,
    batches: Sequence[Batch],
    mask: HeadTensors,
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
) -> float:
    """Mean loss of an example under a mask, in nats; errors of :func:`losses_without`."""
    device = placed(model, device)
    losses: list[Tensor] = []
    for given in batches:
        batch = on_device(given, device)
        with evaluating(model), torch.no_grad(), masked_heads(model, mask):
            losses.append(example_losses(model, batch, loss))
    if not losses:
        raise ValueError("no batches given: a loss is a mean over at least one example")
    return float(torch.cat(losses).double().mean())
