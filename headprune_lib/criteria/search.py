"""Criteria that search for what can go: greedily, by permutations, by training."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from headprune_lib.ablation import one_head_ablation
from headprune_lib.batching import Batch, check_batch
from headprune_lib.criteria.registry import Look, register_criterion
from headprune_lib.gradients import (
    check_labelled,
    differentiable_losses,
    example_losses,
    gate_gradients,
    on_grid,
    opened,
)
from headprune_lib.heads import Head, HeadTensors, find_heads, full_mask
from headprune_lib.losses import Loss, default_loss
from headprune_lib.masking import masked_heads
from headprune_lib.orders import prune_schedule
from headprune_lib.running import evaluating, on_device, placed

# Louizos et al. 2018: the temperature, and how far the distribution reaches below 0 and above 1.
_TEMPERATURE, _LOW, _HIGH = 0.33, -0.1, 1.1


@register_criterion(
    "gates",
    label="learned gates",
    formula=r"\arg\min_{\log \alpha} \; \mathbb{E}\, L(x; \xi) + \lambda \sum_h P(\xi_h \neq 0)",
    source="Voita et al. 2019, section 6: hard concrete gates (Louizos et al. 2018), weights frozen",
    look=Look("green", ":"),
    cost="400 updates, each a forward and a backward pass of a batch",
)
def gates(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
    updates: int = 400,
    penalty: float = 1.0,
    learning_rate: float = 0.1,
    seed: int = 0,
) -> HeadTensors:
    """The learned location of each head's gate, log alpha: what is pushed below 0 is closed first.

    The model's weights stay as they are. The penalty is on the mean probability that a gate is
    open; the batches take turns.

    Args:
        updates: of Adam, in place of which nothing else of the model is trained.
        penalty: in units of the loss, for all gates open; it is to be of the loss's own size.

    Raises:
        ValueError: no batches, fewer updates than 1, or a loss that is not one number an example.
    """
    if updates < 1:
        raise ValueError(f"updates is {updates}; give at least 1")
    kept, blocks = [check_batch(batch) for batch in batches], find_heads(model)
    if not kept:
        raise ValueError("no batches given: gates are learned from at least one example")
    check_labelled(model, kept, loss)
    device = placed(model, device)
    with evaluating(model, frozen=True):  # refused once, and for all updates
        first = on_device(kept[0], device)
        gate_gradients(model, first, blocks, loss)
    # open nine times out of ten before the first update
    start = _TEMPERATURE * math.log(-_LOW / _HIGH) + math.log(9)
    places = [torch.full((len(block.kept),), start, requires_grad=True) for block in blocks]
    optimizer = torch.optim.Adam(places, lr=learning_rate)
    generator = torch.Generator().manual_seed(seed)
    n = max(1, sum(map(len, places)))
    for given in itertools.islice(itertools.cycle(kept), updates):
        batch = on_device(given, device)
        sampled = [_sampled(place, generator) for place in places]
        with (
            evaluating(model, frozen=True),
            torch.enable_grad(),
            opened(model, blocks, sampled),
        ):
            losses = differentiable_losses(model, batch, loss)
            share = torch.stack([open_probability(place).sum() for place in places]).sum() / n
            optimizer.zero_grad()
            (losses.mean().cpu() + penalty * share).backward()
            optimizer.step()
    return on_grid(model, blocks, [place.detach().double() for place in places])


def open_probability(place: Tensor) -> Tensor:
    """The probability that a gate at log alpha is not 0 (Louizos et al. 2018, equation 12)."""
    return torch.sigmoid(place - _TEMPERATURE * math.log(-_LOW / _HIGH))


def _sampled(place: Tensor, generator: torch.Generator) -> Tensor:
    """A gate from 0 to 1, drawn anew, that a gradient flows through."""
    noise = torch.rand(place.shape, generator=generator).clamp(1e-6, 1 - 1e-6)
    soft = torch.sigmoid((noise.logit() + place) / _TEMPERATURE)
    return (soft * (_HIGH - _LOW) + _LOW).clamp(0, 1)


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
