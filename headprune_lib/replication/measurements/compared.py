"""The orders that are compared with each other, on one training."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import torch

from headprune_lib.criteria.attention import combined
from headprune_lib.masking import HeadTensors
from headprune_lib.replication import stats
from headprune_lib.replication.bounds import ORDERS_UP_TO
from headprune_lib.replication.data import Texts
from headprune_lib.replication.measurements.contrasts import COMBINED, CONTROL
from headprune_lib.replication.measurements.measurement import Context, Half
from headprune_lib.replication.measurements.orders import Subject, by_criterion, random_order
from headprune_lib.replication.measurements.shared_masks import losses_under
from headprune_lib.replication.metrics import MILLINAT, coarse
from headprune_lib.replication.order_names import read_name
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import TranslationSubject
from headprune_lib.selection import Head, order_masks, rank_heads

SHARES = (*(i / 20 for i in range(11)), 0.6, 0.7, 0.8, 0.9, 1.0)
"""Of the heads, removed at each step: finely as far as orders are compared."""
COMPARED = tuple(share for share in SHARES if share <= ORDERS_UP_TO)
"""Those over which orders are compared."""
STEPS = 20
"""In which an order that is scored again removes heads."""
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Weights of importance, of which one is chosen on training text."""
CONTROL_DRAWS = 20

Run = tuple[list[Head], str]
"""An order, and what was chosen or drawn for it."""


def runs_of(context: Context, order: str, subject: Subject) -> Iterator[Run]:
    """Every run of an order on a training: several where it is drawn.

    Args:
        order: ``"random"``, ``COMBINED``, ``CONTROL``, or a criterion and what is done to its
            scores; see :func:`headprune_lib.replication.order_names.read_name`.

    Raises:
        ValueError: a name that says nothing.
    """
    finely = dataclasses.replace(context.profile, steps=STEPS)  # what is scored again
    context = dataclasses.replace(context, profile=finely)
    if order == "random":
        heads = rank_heads(subject.importance(context.journal))
        for draw in range(n_random(context.half, context.profile)):
            yield random_order(heads, 1000 * subject.seed + draw), str(draw)
    elif order == CONTROL:
        yield from _shuffled(context, subject)
    elif order == COMBINED:
        yield _chosen(context, subject)
    else:
        yield by_criterion(context, read_name(order), subject), ""


def scores_of(context: Context, order: str, subject: Subject) -> HeadTensors:
    """The scores that an order follows; none where it is drawn, or scored again at each step."""
    if order in ("random", COMBINED, CONTROL) or read_name(order).rescored:
        return {}
    return subject.scores(context.journal, read_name(order))


def n_random(half: Half, profile: Profile) -> int:
    """Random orders a training."""
    return profile.random_orders if half == "encoder" else profile.translation_orders


def masks_along(
    subject: Subject, order: list[Head], shares: tuple[float, ...]
) -> list[HeadTensors]:
    """The mask at each share removed."""
    return order_masks(subject.model, order, [n_cut(len(order), share) for share in shares])


def n_cut(n_heads: int, share: float) -> int:
    """How many heads are gone at a share: rounded up, as in the paper's schedule.

    >>> n_cut(72, 0.05), n_cut(72, 0.5), n_cut(72, 1.0)
    (4, 36, 72)
    """
    return int(np.ceil(n_heads * share - 1e-9))


def shares_of(order: str) -> tuple[float, ...]:
    """How far an order is followed: the control no further than orders are compared."""
    return COMPARED if order == CONTROL else SHARES


def loss_area(shares: tuple[float, ...], loss: np.ndarray) -> np.ndarray:
    """What each text's loss grows by, mean over 0 to 50% removed, in thousandths of a nat.

    Args:
        loss: (steps, n) in nats, the unpruned model's first. To five binary digits.
    """
    inside = np.array(shares) <= ORDERS_UP_TO + 1e-9
    added = stats.area_under_curve(np.array(shares)[inside], (loss[inside] - loss[0]).T)
    return np.rint(coarse(MILLINAT * added)).astype(np.int32)


def _shuffled(context: Context, subject: Subject) -> Iterator[Run]:
    """The combined order with its own weight, but entropies of other heads of the same layer."""
    alpha, both = alpha_in(_chosen(context, subject)[1]), parts_of(context, subject)
    for draw in range(CONTROL_DRAWS):
        yield combined_order(alpha, *both, draw), f"{draw}"


def combined_order(
    alpha: float, important: HeadTensors, wide: HeadTensors, draw: int | None = None
) -> list[Head]:
    """By importance and entropy; with a draw, entropies change places within their layers."""
    if draw is not None:
        wide = {kind: shuffled_within(values, draw) for kind, values in wide.items()}
    return rank_heads(combined(alpha, important, wide))


def alpha_in(said: str) -> float:
    """The weight in what is said of a combined order.

    >>> alpha_in("alpha=0.25")
    0.25
    """
    return float(said.removeprefix("alpha="))


def shuffled_within(values: torch.Tensor, draw: int) -> torch.Tensor:
    """(layer, head) with the heads of each layer in another order."""
    generator = torch.Generator().manual_seed(draw)
    places = [torch.randperm(values.shape[1], generator=generator) for _ in values]
    return torch.stack([row[place] for row, place in zip(values, places, strict=True)])


def _chosen(context: Context, subject: Subject) -> Run:
    """The weight whose order adds least loss over 0 to 50% removed, on training text."""
    texts, both, added = selection(subject), parts_of(context, subject), {}
    for alpha in ALPHAS:
        masks = masks_along(subject, combined_order(alpha, *both), COMPARED)
        loss = losses_under(subject, masks, texts, context.journal)
        added[alpha] = float(loss_area(COMPARED, loss).mean())
    best = min(ALPHAS, key=lambda alpha: added[alpha])
    return combined_order(best, *both), f"alpha={best:g}"


def selection(subject: Subject) -> Texts:
    """Training text for choices that must not see the test set."""
    if isinstance(subject, TranslationSubject):
        return subject.pairs("train")
    return subject.selection


def parts_of(context: Context, subject: Subject) -> tuple[HeadTensors, HeadTensors]:
    """Importance (not normalised) and entropy of every head, each measured once."""
    important = subject.scores(context.journal, read_name("importance unnormalised"))
    return important, subject.scores(context.journal, read_name("entropy"))
