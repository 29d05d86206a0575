"""Which heads first? Orders of removal by every criterion, beside each other. Not in the paper.

A part is an order, measured on all trainings of the profile. Masks that cut the same heads are
evaluated once, whichever order cut them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from headprune_lib.criteria.importance_entropy import combined
from headprune_lib.heads import HeadTensors
from headprune_lib.orders import Head, order_mask, prune_order
from headprune_lib.replication import stats
from headprune_lib.replication.data import TASKS, Examples
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.measurements.contrasts import (
    COMBINED,
    CONTROL,
    UP_TO,
    Statistics,
    Values,
    values_of,
)
from headprune_lib.replication.measurements.measurement import (
    Context,
    Half,
    Measurement,
    Own,
    Runs,
)
from headprune_lib.replication.measurements.orders import by_criterion, random_order
from headprune_lib.replication.order_names import mask_key, read_name
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.stats.losses import MILLINAT, coarse
from headprune_lib.replication.stats.metrics import SCORES
from headprune_lib.replication.store import Arrays, Journal, Measured, Outcomes

SHARES = (*(i / 20 for i in range(11)), 0.6, 0.7, 0.8, 0.9, 1.0)
"""Of the heads, removed at each step: finely as far as orders are compared."""
STEPS = 20
"""In which an order that is scored again removes heads."""
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Weights of importance, of which one is chosen on training sentences."""
CONTROL_DRAWS = 20


class _Run(NamedTuple):
    """An order on one training; ``said`` is what was chosen or drawn for it."""

    subject: EncoderSubject
    order: list[Head]
    said: str


def _measure(context: Context, part: str) -> Measured:
    profile, task = context.profile, TASKS[context.profile.task]
    shares = [share for share in SHARES if part != CONTROL or share <= UP_TO]
    runs = list(_runs(context, part))
    found = [
        _along(run.subject, run.order, shares, run.subject.test, context.journal) for run in runs
    ]
    main = runs[0].subject
    labels = np.array(main.test.labels, np.int8)
    raw: Arrays = {
        "trainings": np.array([run.subject.seed for run in runs], np.int32),
        "said": np.array([run.said for run in runs], np.str_),
        "order": np.array([[head[1:] for head in run.order] for run in runs], np.int16),
        "correct": np.stack([one["correct"] for one in found]),
        "loss_area": np.stack([loss_area(shares, one["loss"]) for one in found]),
        "log_loss": np.stack([one["loss"].mean(-1) for one in found]),
        "labels": labels,
        "shares": np.array(shares),
        "metric": np.array(task.metric),
    }
    return main.measured(
        raw,
        metric=task.metric,
        unit=SCORES[task.metric].unit,
        runs=[EncoderSubject.of(profile, seed).run for seed in profile.seeds],
    )


def loss_area(shares: list[float], loss: np.ndarray) -> np.ndarray:
    """What each example's loss grows by, mean over 0 to 50% removed, in thousandths of a nat.

    Args:
        loss: (steps, n) in nats, the unpruned model's first. To five binary digits.
    """
    inside = np.array(shares) <= UP_TO + 1e-9
    added = stats.area_under_curve(np.array(shares)[inside], (loss[inside] - loss[0]).T)
    return np.rint(coarse(MILLINAT * added)).astype(np.int32)


def _along(
    subject: EncoderSubject,
    order: list[Head],
    shares: list[float],
    examples: Examples,
    journal: Journal,
) -> Arrays:
    """``correct`` and ``loss`` (steps, n) along an order."""
    masks = [order_mask(subject.model, order, n_cut(len(order), share)) for share in shares]
    named = {mask_key(mask): mask for mask in masks}
    where = f"{subject.profile.task} {len(examples)}"
    found = subject.under(
        {f"{where} {key}": mask for key, mask in named.items()},
        examples,
        journal,
        f"which first, seed {subject.seed}",
    )
    rows = [list(named).index(mask_key(mask)) for mask in masks]
    return {name: values[rows] for name, values in found.items()}


def n_cut(n_heads: int, share: float) -> int:
    """How many heads are gone at a share: rounded up, as in the paper's schedule.

    >>> n_cut(72, 0.05), n_cut(72, 0.5), n_cut(72, 1.0)
    (4, 36, 72)
    """
    return int(np.ceil(n_heads * share - 1e-9))


# --- orders ---------------------------------------------------------------------------------------


def _runs(context: Context, part: str) -> Iterator[_Run]:
    """Every run of an order, training by training."""
    finely = dataclasses.replace(context.profile, steps=STEPS)  # what is scored again
    context = dataclasses.replace(context, profile=finely)
    for seed in context.profile.seeds:
        subject = EncoderSubject.of(context.profile, seed)
        if part == "random":
            heads = prune_order(subject.importance(context.journal))
            for draw in range(context.profile.random_orders):
                yield _Run(subject, random_order(heads, 1000 * seed + draw), str(draw))
        elif part == CONTROL:
            yield from _shuffled(context, subject)
        elif part == COMBINED:
            yield _chosen(context, subject)
        else:
            yield _Run(subject, by_criterion(context, read_name(part), subject), "")


def _shuffled(context: Context, subject: EncoderSubject) -> Iterator[_Run]:
    """The combined order with its own weight, but entropies of other heads of the same layer."""
    alpha = float(_chosen(context, subject).said.removeprefix("alpha="))
    important, wide = _parts_of(context, subject)
    for draw in range(CONTROL_DRAWS):
        drawn = {kind: shuffled_within(values, draw) for kind, values in wide.items()}
        order = prune_order(combined(alpha, important, drawn))
        yield _Run(subject, order, f"{draw}")


def shuffled_within(values: torch.Tensor, draw: int) -> torch.Tensor:
    """(layer, head) with the heads of each layer in another order."""
    generator = torch.Generator().manual_seed(draw)
    places = [torch.randperm(values.shape[1], generator=generator) for _ in values]
    return torch.stack([row[place] for row, place in zip(values, places, strict=True)])


def _chosen(context: Context, subject: EncoderSubject) -> _Run:
    """The weight whose order adds least loss over 0 to 50% removed, on training sentences."""
    shares = [share for share in SHARES if share <= UP_TO]
    important, wide = _parts_of(context, subject)
    added = {}
    for alpha in ALPHAS:
        order = prune_order(combined(alpha, important, wide))
        loss = _along(subject, order, shares, subject.selection, context.journal)["loss"]
        added[alpha] = float(loss_area(shares, loss).mean())
    best = min(ALPHAS, key=lambda alpha: added[alpha])
    return _Run(subject, prune_order(combined(best, important, wide)), f"alpha={best:g}")


def _parts_of(context: Context, subject: EncoderSubject) -> tuple[HeadTensors, HeadTensors]:
    """Importance (not normalised) and entropy of every head, each measured once."""
    important = subject.scores(context.journal, read_name("importance unnormalised"))
    return important, subject.scores(context.journal, read_name("entropy"))


# --- what it is -----------------------------------------------------------------------------------


def _summarise(_half: Half, outcomes: Outcomes, _runs: Runs, statistics: Statistics) -> Values:
    return values_of(outcomes, statistics)


def _parameters(profile: Profile, _half: Half) -> dict[str, Any]:
    return {"n_examples": profile.n_examples, "shares": list(SHARES)}


def _parts(profile: Profile, _half: Half, _task: str) -> tuple[str, ...]:
    return tuple(profile.compared)


def _own(profile: Profile, _half: Half, part: str) -> Own:
    values: dict[str, Any] = {"order": part, "n_scoring": profile.n_scoring}
    if part == "random":
        values["draws"] = profile.random_orders
    elif part in (COMBINED, CONTROL):
        values |= {"n_selection": profile.n_selection, "alphas": list(ALPHAS)}
        values |= {"draws": CONTROL_DRAWS} if part == CONTROL else {}
    else:
        values["criterion"] = read_name(part).criterion.version
    return Own(values, tuple(profile.seeds))


MEASUREMENTS = (
    Measurement(
        "which_first",
        1,
        {"encoder": Statistics()},
        _parameters,
        _measure,
        _summarise,
        parts=_parts,
        own=_own,
    ),
)
