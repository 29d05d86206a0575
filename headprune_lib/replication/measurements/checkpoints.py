"""Checkpoints of a training: which ones Figure 5 is measured at, and the measuring itself.

Every mask's translations, draft losses and teacher-forced losses of the references are kept verse
by verse, and each unit of work goes to the journal by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from headprune_lib.replication.bounds import C5_REMOVED
from headprune_lib.replication.engine import run_units
from headprune_lib.replication.lazy import masking, selection, setups
from headprune_lib.replication.measurements.measurement import Context
from headprune_lib.replication.measurements.orders import random_order
from headprune_lib.replication.metrics import MILLINAT, coarse
from headprune_lib.replication.models.translators import (
    kept_updates,
    read_curve,
    train,
    validation_bleu,
)
from headprune_lib.replication.profiles import Checkpoints
from headprune_lib.replication.store import Arrays, Journal
from headprune_lib.replication.store.heads import KINDS, heads_array
from headprune_lib.replication.store.verses import coarse_losses

# --- which ----------------------------------------------------------------------------------------


class Point(NamedTuple):
    """Weights that a training kept.

    Attributes:
        bleu: greedy, on the validation verses; NaN where it was not measured.
        kept: ``epoch`` or ``update``, as :meth:`TranslationSubject.of` takes it.
    """

    updates: int
    epoch: float
    bleu: float
    kept: dict[str, int]


def points_of(context: Context, seed: int, within: bool) -> list[Point]:
    """The weights that a training kept, which is trained now if need be, in order of updates.

    Args:
        within: those from within the first epochs as well. Of them the nearest to a whole epoch
            are left out: that epoch's own stand for them.
    """
    model = context.profile.model_of(context.task)
    folder = train(context.profile, context.task, seed, model=model)
    curve = read_curve(folder)
    points = [
        Point(
            epoch["updates"],
            epoch["epoch"],
            np.nan if epoch["bleu"] is None else epoch["bleu"],
            {"epoch": epoch["epoch"]},
        )
        for epoch in curve
    ]
    if within:
        points += _within(context, seed, folder, curve[0]["updates"])
    return sorted(points, key=lambda point: point.updates)


def _within(context: Context, seed: int, folder: Path, updates_an_epoch: int) -> list[Point]:
    """The untrained model's weights, and those of each quarter of an epoch that is no whole one."""
    quarters = {update: update / updates_an_epoch for update in kept_updates(folder)}
    parts = [update for update, epoch in quarters.items() if round(4 * epoch) % 4]
    bleu = _validated(context, seed, parts)
    return [Point(0, 0.0, np.nan, {"update": 0})] + [
        Point(update, quarters[update], bleu[update], {"update": update}) for update in parts
    ]


def _validated(context: Context, seed: int, updates: list[int]) -> dict[int, float]:
    """Greedy BLEU on the validation verses after some numbers of updates."""
    subjects = [
        setups.TranslationSubject.of(context.profile, context.task, seed, update=update)
        for update in updates
    ]

    def measure(subject: setups.TranslationSubject) -> Arrays:
        pairs = subject.split("valid")
        bleu = validation_bleu(subject.model, subject.translator.pieces, pairs)
        return {"bleu": np.array(bleu)}

    units = run_units(
        {
            f"{validated.key} validation": lambda validated=validated: measure(validated)
            for validated in subjects
        },
        context.journal,
        f"validate, training {seed}",
    ).values()
    return {update: float(unit["bleu"]) for update, unit in zip(updates, units, strict=True)}


def chosen(points: list[Point], wanted: Checkpoints) -> list[Point]:
    """Those of a training's points that are measured; see :class:`Checkpoints`.

    One that several rules choose is there once.
    """
    validated = [point for point in points if not np.isnan(point.bleu)]
    best = max((point.bleu for point in validated), default=np.nan)
    picked = [
        min(validated, key=lambda point: abs(point.bleu / best - share)) for share in wanted.shares
    ]
    picked += [point for point in points if point.updates == 0]
    picked += [point for point in points if point.kept.get("epoch") in wanted.epochs]
    if wanted.every is not None:
        epochs = [point for point in points if "epoch" in point.kept]
        picked += [point for point in epochs if point.kept["epoch"] % wanted.every == 0]
        picked.append(epochs[-1])
    by_updates = {point.updates: point for point in picked}
    return [by_updates[updates] for updates in sorted(by_updates)]


# --- what -----------------------------------------------------------------------------------------


def measured_at(
    subject: setups.TranslationSubject, wanted: Checkpoints, journal: Journal
) -> Arrays:
    """Outcomes of a checkpoint under the masks of every order.

    Returns:
        What :meth:`TranslationSubject.outcomes` gives; the first ``steps`` masks are those of the
        paper's order (``order``), the further ones are named in ``further``. ``each <kind>``
        (verses, layer, head) is |dL(x)/dxi_h|. Of the references ``reference_loss_uncut`` (n,) and
        ``reference_loss_change`` (M, n) in thousandths of a nat, the change to five binary digits,
        and ``reference_pieces`` (n,).
    """
    plain = subject.importance(journal, normalize=None)
    order, steps = selection.rank_heads(subject.importance(journal)), subject.profile.steps
    schedule = selection.prune_schedule(len(order), steps)
    masks = {
        f"importance {step}": selection.order_mask(subject.model, order, schedule[step])
        for step in range(1, steps + 1)
    }
    further = further_masks(subject, plain, wanted, schedule[_step_at(steps)])
    every, pairs = masks | further, subject.tested(wanted.n_verses)
    raw = coarse_losses(subject.outcomes(every, pairs, journal, "pruned"))
    uncut = {"uncut": masking.ones_mask(subject.model)}
    references = subject.reference_losses(pairs, uncut | every, journal)
    loss = np.rint(MILLINAT * references["loss"])
    each = subject.verse_importance(journal)
    return {
        **raw,
        "reference_loss_uncut": loss[0].astype(np.int32),
        "reference_loss_change": np.rint(coarse(loss[1:] - loss[0])).astype(np.int32),
        "reference_pieces": references["pieces"].astype(np.int16),
        **{f"each {kind}": coarse(values).astype(np.float16) for kind, values in each.items()},
        "order": heads_array(order),
        "further": np.array([*further], np.str_),
    }


def _step_at(steps: int) -> int:
    """The step of the curve at which orders are compared.

    Raises:
        ValueError: the curve has no such step.
    """
    at = round(C5_REMOVED * steps)
    if not np.isclose(at / steps, C5_REMOVED):
        raise ValueError(
            f"a curve of {steps} steps has none at {C5_REMOVED:.0%}; give steps 5, 10, 15, ..."
        )
    return at


def further_masks(
    subject: setups.TranslationSubject, plain: masking.HeadTensors, wanted: Checkpoints, n_cut: int
) -> dict[str, masking.HeadTensors]:
    """The masks of the other orders, each at the one share that is compared.

    A random order depends on the number of its draw alone: it is the same for all checkpoints and
    trainings.
    """
    orders = {"unnormalised": selection.rank_heads(plain)} if wanted.unnormalised else {}
    heads = [(k, *head) for k in KINDS for head in np.ndindex(*plain[k].shape)]
    for draw in range(wanted.random_orders or 0):
        orders[f"random {draw}"] = random_order(heads, draw)
    return {
        name: selection.order_mask(subject.model, order, n_cut) for name, order in orders.items()
    }
