"""Measure what becomes of the score along orders of removal."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from headprune_lib.replication.data import TASKS, Texts
from headprune_lib.replication.measurements.measurement import Context
from headprune_lib.replication.metrics import MILLINAT, SCORES, millinats
from headprune_lib.replication.setups import EncoderSubject, TranslationSubject
from headprune_lib.replication.store import Measured
from headprune_lib.replication.store.heads import heads_array
from headprune_lib.replication.store.verses import coarse_losses
from headprune_lib.selection import Head, order_masks, prune_schedule

Subject = EncoderSubject | TranslationSubject
Run = tuple[str, Subject, list[Head]]


def along(
    context: Context, runs: Iterable[Run], title: str, pairs: Texts | None = None
) -> Measured:
    """Every run of an order: which heads it removes, and what becomes of the score.

    Args:
        pairs: of the translation half, the verses to translate.
    """
    if pairs is None:
        return _answers_along(context, list(runs), title)
    return _translations_along(context, list(runs), title, pairs)


def _masks(subject: Subject, order: list[Head], steps: int) -> list:
    return order_masks(subject.model, order, prune_schedule(len(order), steps))


def _answers_along(context: Context, runs: list[Run], title: str) -> Measured:
    profile, (_, main, _) = context.profile, runs[0]
    found = [
        subject.curve(
            _masks(subject, order, profile.steps), subject.test, context.journal, f"{title}/{name}"
        )
        for name, subject, order in runs
    ]
    labels, task = np.array(main.test.labels, np.int8), TASKS[profile.task]
    loss = np.stack([millinats(curve["loss"]) for curve in found])
    raw = {
        "names": np.array([name for name, *_ in runs]),
        "order": np.stack([heads_array(order) for *_, order in runs]),
        "correct": np.stack([curve["correct"] for curve in found]),
        "loss": loss,
        "log_loss": loss.mean(-1) / MILLINAT,
        "labels": labels,
        "shares": np.arange(profile.steps + 1) / profile.steps,
    }
    if task.metric != "accuracy":
        raw["metric"] = np.array(task.metric)
    subjects = {subject.seed: subject for _, subject, _ in runs}
    return main.measured(
        raw,
        metric=task.metric,
        unit=SCORES[task.metric].unit,
        runs=[subject.run for subject in subjects.values()],
    )


def _translations_along(context: Context, runs: list[Run], title: str, pairs: Texts) -> Measured:
    """The unmasked model's translations once, then those after each step of each run."""
    profile, (_, main, _) = context.profile, runs[0]
    masks = [
        mask for _, subject, order in runs for mask in _masks(subject, order, profile.steps)[1:]
    ]
    raw = coarse_losses(main.sweep(pairs, masks, context.journal, f"pruning curve, {title}"))
    raw |= {
        "names": np.array([name for name, *_ in runs]),
        "order": np.stack([heads_array(order) for *_, order in runs]),
        "shares": np.arange(profile.steps + 1) / profile.steps,
    }
    return main.measured(raw, len(pairs))
