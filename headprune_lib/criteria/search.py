"""Criteria that search: removal is tried step by step, in samples, or by training gates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from headprune_lib.ablation import one_head_ablation
from headprune_lib.criteria.registry import register_criterion, to_head_tensors
from headprune_lib.discovery import find_heads
from headprune_lib.gradients import differentiable_losses, example_losses, prove_gradients
from headprune_lib.losses import NOTHING_COUNTS, Loss, default_loss, n_labels
from headprune_lib.masking import Head, HeadTensors, gated, ones_of, without_heads
from headprune_lib.selection import prune_schedule
from headprune_lib.specs import AttentionLayer
from headprune_lib.utils import (
    Batch,
    Device,
    check_batch,
    ensure_device,
    eval_mode,
    in_double,
    on_device,
    to_device,
)


@register_criterion("greedy")
def greedy(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: Device = None,
    steps: int = 20,
) -> HeadTensors:
    """Rank in backward elimination by the smallest rise in loss.

    Ranks go from 0 (removed first) to 1. Each of ``steps`` steps measures the loss without
    each remaining head, and removes as many heads as :func:`headprune_lib.prune_schedule` says,
    those that raise the loss least first. The batches are read once and kept.
    """
    kept = _searched(model, batches, loss, steps=steps)
    blocks = find_heads(model)
    mask = ones_of(blocks)
    left: list[Head] = [(b.kind, b.layer, head) for b in blocks for head in b.kept_heads]
    n, scores = len(left), {k: torch.full_like(v, torch.nan).double() for k, v in mask.items()}
    for done, after in itertools.pairwise(prune_schedule(n, steps)):
        if after == done:  # more steps than heads
            continue
        losses = losses_without(model, blocks, kept, left, mask, loss=loss, device=device)
        cheapest = sorted(zip(losses, left, strict=True), key=lambda pair: pair[0])[: after - done]
        for step, (_, (kind, layer, head)) in enumerate(cheapest, done):
            mask[kind][layer, head] = 0
            scores[kind][layer, head] = step / max(n - 1, 1)
            left.remove((kind, layer, head))
    return scores


def losses_without(
    model: nn.Module,
    blocks: Sequence[AttentionLayer],
    batches: Sequence[Batch],
    heads: Sequence[Head],
    mask: HeadTensors,
    *,
    loss: Loss | None = None,
    device: Device = None,
) -> list[float]:
    """Mean loss per example without each head, in addition to those that the mask cuts.

    What a head does not change is computed once, except for a custom loss, which may need outputs
    that the model computes from the labels.
    """
    if loss is not None:
        losses = []
        for head in heads:
            with gated(model, without_heads(mask, [head]), blocks):
                losses.append(mean_loss(model, batches, loss=loss, device=device))
        return torch.stack(losses).tolist()
    totals, count = torch.zeros(len(heads), dtype=torch.float64), 0
    with gated(model, mask, blocks):
        sweep = one_head_ablation(model, batches, reduce=default_loss(model), device=device)
        for uncut, cut in sweep:
            totals += torch.stack([cut[head].double().sum() for head in heads])
            count += len(uncut)
    return (totals / count).tolist()


def mean_loss(
    model: nn.Module, batches: Iterable[Batch], *, loss: Loss | None = None, device: Device = None
) -> Tensor:
    """Mean loss per example in nats, a scalar on the model's device."""
    with eval_mode(model), torch.no_grad():
        losses = [example_losses(model, each, loss) for each in on_device(model, batches, device)]
    return in_double(torch.cat(losses)).mean()


@register_criterion("shapley")
def shapley(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: Device = None,
    permutations: int = 64,
    seed: int = 0,
) -> HeadTensors:
    """Shapley value: what a head adds to random sets of others.

    How much a head lowers the loss when it joins those before it, in nats (Castro et al. 2009, by
    sampled permutations; Held and Yang 2023 prune heads by it). Each permutation adds the heads one
    by one to a model without any, on one batch; the batches take turns. The values sum to the loss
    without heads minus the loss with all, on these batches.
    """
    kept = _searched(model, batches, loss, permutations=permutations)
    blocks, device = find_heads(model), ensure_device(model, device)
    values = [in_double(torch.zeros(len(block.kept_heads), device=device)) for block in blocks]
    heads = [(number, i) for number, each in enumerate(values) for i in range(len(each))]
    generator = torch.Generator().manual_seed(seed)

    def loss_under(mask: HeadTensors, batch: list[Batch]) -> Tensor:
        with gated(model, mask, blocks):
            return mean_loss(model, batch, loss=loss, device=device)

    for turn in range(permutations):
        batch = [kept[turn % len(kept)]]
        mask = {kind: torch.zeros_like(ones) for kind, ones in ones_of(blocks).items()}
        before = loss_under(mask, batch)
        for drawn in torch.randperm(len(heads), generator=generator).tolist():
            number, i = heads[drawn]
            block = blocks[number]
            mask[block.kind][block.layer, block.kept_heads[i]] = 1
            after = loss_under(mask, batch)
            values[number][i] += (before - after) / permutations
            before = after
    return to_head_tensors(blocks, values)


# Louizos et al. 2018: the temperature, and how far the distribution reaches below 0 and above 1;
# a gate at log alpha is not 0 with probability sigmoid(log alpha - _SHIFT) (equation 12).
_TEMPERATURE, _LOW, _HIGH = 0.33, -0.1, 1.1
_SHIFT = _TEMPERATURE * math.log(-_LOW / _HIGH)


@register_criterion("gates")
def gates(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: Device = None,
    updates: int = 400,
    penalty: float = 1.0,
    learning_rate: float = 0.1,
    seed: int = 0,
) -> HeadTensors:
    r"""Learned gates, with the model's weights frozen.

    The log alpha of hard concrete gates (Voita et al. 2019, section 6; Louizos et al. 2018) that
    minimise :math:`\mathbb{E}\, L(x; \xi) + \lambda \sum_h P(\xi_h \neq 0)`: heads pushed below 0
    are removed first. The penalty is on the mean probability that a gate is open. The batches
    take turns.

    Args:
        updates: number of Adam's updates of the gates; the model itself is not trained.
        penalty: in units of the loss, with all gates open; it should be of the loss's own size.
    """
    kept = _searched(model, batches, loss, updates=updates)
    blocks, device = find_heads(model), ensure_device(model, device)
    prove_gradients(model, to_device(kept[0], device), blocks, loss)
    start = _SHIFT + math.log(9)  # open nine times out of ten before the first update
    sizes = [len(block.kept_heads) for block in blocks]
    log_alphas = [torch.full((n,), start, device=device, requires_grad=True) for n in sizes]
    optimizer = torch.optim.Adam(log_alphas, lr=learning_rate)
    generator = torch.Generator().manual_seed(seed)
    n = max(1, sum(map(len, log_alphas)))
    for batch in itertools.islice(itertools.cycle(kept), updates):
        with torch.enable_grad():
            sampled = [_sampled(each, generator) for each in log_alphas]
            with eval_mode(model, frozen=True), gated(model, sampled, blocks):
                losses = differentiable_losses(model, to_device(batch, device), loss)
            opened = [torch.sigmoid(each - _SHIFT).sum() for each in log_alphas]
            share = torch.stack(opened).sum() / n
            optimizer.zero_grad()
            (losses.mean().to(share) + penalty * share).backward()
            optimizer.step()
    return to_head_tensors(blocks, [in_double(each.detach()) for each in log_alphas])


def _sampled(log_alpha: Tensor, generator: torch.Generator) -> Tensor:
    """Sample gates from 0 to 1 through which a gradient flows."""
    noise = torch.rand(log_alpha.shape, generator=generator).clamp(1e-6, 1 - 1e-6)
    soft = torch.sigmoid((noise.to(log_alpha.device).logit() + log_alpha) / _TEMPERATURE)
    return (soft * (_HIGH - _LOW) + _LOW).clamp(0, 1)


def _searched(
    model: nn.Module, batches: Iterable[Batch], loss: Loss | None, **repeats: int
) -> list[Batch]:
    """Check the settings, and return the batches as a list, since they are read repeatedly."""
    for name, number in repeats.items():
        if number < 1:
            raise ValueError(f"{name} is {number}. Give at least 1")
    kept = [check_batch(batch) for batch in batches]
    if not kept:
        raise ValueError("no batches given. Give at least one, with one example or more")
    labelled = [batch for batch in kept if isinstance(batch.get("labels"), Tensor)]
    usual = loss or default_loss(model)  # a custom loss decides itself what counts
    if loss is None and labelled and not any(n_labels(usual, batch) for batch in labelled):
        raise ValueError(f"there is no loss to score heads by: {NOTHING_COUNTS}")
    return kept
