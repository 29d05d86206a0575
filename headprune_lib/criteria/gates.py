"""Gates that are learned with the weights frozen: what training chooses to keep open."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from headprune_lib.batching import Batch, check_batch
from headprune_lib.criteria.derivatives import opened
from headprune_lib.criteria.example_losses import check_labelled, differentiable_losses
from headprune_lib.criteria.gradients import gate_gradients, on_grid
from headprune_lib.criteria.registry import Look, register_criterion
from headprune_lib.heads import HeadTensors, find_heads
from headprune_lib.losses import Loss
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
