"""Figure 5 (section 6): the cost of pruning and the unevenness of importance during training.

Each training is a part of the result, so that it can be measured alone. Checkpoints are matched to
the paper's by the share of the best BLEU that they have reached, not by epoch: two models learn at
different speeds. Where weights were saved more often, the untrained model, epochs at regular
intervals and the last one are measured too. Ratios of BLEU mean little near 0, so the
teacher-forced loss of the references is measured as well.

For each mask, n-gram counts, draft losses and reference losses are stored verse by verse, and the
journal keeps each unit of work separately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy

from headprune_lib.replication import stats
from headprune_lib.replication.bounds import C5_REMOVED, LEAST_BLEU
from headprune_lib.replication.engine import in_turn, run_units
from headprune_lib.replication.lazy import masking, selection, setups
from headprune_lib.replication.measurements.base import Constants, Context, Own, measurement
from headprune_lib.replication.measurements.estimates import (
    Scored,
    of_losses,
)
from headprune_lib.replication.measurements.orders import random_order
from headprune_lib.replication.measurements.single_heads import sacrebleus_own, scored_cuts
from headprune_lib.replication.metrics import MILLINAT, coarse
from headprune_lib.replication.models.translators import (
    kept_updates,
    read_curve,
    train,
    validation_bleu,
)
from headprune_lib.replication.order_names import seed_in
from headprune_lib.replication.profiles import Checkpoints, Profile
from headprune_lib.replication.store import Arrays, Journal, Measured, Outcomes
from headprune_lib.replication.store.packing import BESIDE, KINDS, coarse_losses, heads_array

SHARED = ("reference_lengths", f"{BESIDE}reference_lengths", "reference_pieces", "further")
"""Outcomes that all checkpoints of a training have in common."""

Record = dict[str, Any]
"""A checkpoint's numbers.

``bleu``, ``kept`` (share of the unpruned BLEU) and ``loss`` (nats per piece of the references)
follow the curve in the paper's order (steps + 1,). ``kept_at`` and ``added_loss`` are that order's
values at the compared share, ``kept_unnormalised``, ``kept_random`` (the mean over random orders)
and their ``added_loss_`` those of the others, None where not measured. ``sacrebleu`` is sacrebleu's
own BLEU, where ``bleu`` is of Moses' tokens. ``gini`` is over all heads, ``gini_within`` the mean
over layers of all kinds. ``<name>_interval`` is from a bootstrap over verses. ``settled`` is
Spearman's correlation of normalised importance with that of the training's last checkpoint.
"""

# --- which checkpoints ----------------------------------------------------------------------------


class Point(NamedTuple):
    """A checkpoint of a training.

    Attributes:
        bleu: greedy BLEU on the validation verses; NaN where it was not measured.
        kept: the argument ``epoch`` or ``update`` of :meth:`Context.subject`.
    """

    updates: int
    epoch: float
    bleu: float
    kept: dict[str, int]


def points_of(context: Context, seed: int, within: bool) -> list[Point]:
    """The checkpoints of a training in order of updates; the model is trained now if need be.

    Args:
        within: include the untrained model and checkpoints within the first epochs, except those
            nearest to a whole epoch, which that epoch's own checkpoint represents.
    """
    model = context.profile.model_of(context.task)
    folder = train(context.profile, context.task, seed, model=model)
    curve = read_curve(folder)
    points = []
    for epoch in curve:
        bleu = np.nan if epoch["bleu"] is None else epoch["bleu"]
        points.append(Point(epoch["updates"], epoch["epoch"], bleu, {"epoch": epoch["epoch"]}))
    if within:
        points += _within(context, seed, folder, curve[0]["updates"])
    return sorted(points, key=lambda point: point.updates)


def _within(context: Context, seed: int, folder: Path, updates_an_epoch: int) -> list[Point]:
    """The untrained model, and the checkpoints at quarters of an epoch other than whole epochs."""
    quarters = {update: update / updates_an_epoch for update in kept_updates(folder)}
    parts = [update for update, epoch in quarters.items() if round(4 * epoch) % 4]
    bleu = _validated(context, seed, parts)
    return [Point(0, 0.0, np.nan, {"update": 0})] + [
        Point(update, quarters[update], bleu[update], {"update": update}) for update in parts
    ]


def _validated(context: Context, seed: int, updates: list[int]) -> dict[int, float]:
    """Greedy BLEU on the validation verses after each of these numbers of updates."""

    def measure(subject: setups.TranslationSubject) -> Arrays:
        pairs = subject.split("valid")
        bleu = validation_bleu(subject.model, subject.translator.pieces, pairs)
        return {"bleu": np.array(bleu)}

    subjects = [context.subject(seed, update=update) for update in updates]
    units = {f"{subject.key} validation": partial(measure, subject) for subject in subjects}
    done = run_units(units, context.journal, f"validate, training {seed}").values()
    return {update: float(unit["bleu"]) for update, unit in zip(updates, done, strict=True)}


def chosen(points: list[Point], wanted: Checkpoints) -> list[Point]:
    """The checkpoints of a training that are measured; see :class:`Checkpoints`.

    One that several rules choose is listed once.
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


# --- what is measured at each ---------------------------------------------------------------------


def measured_at(
    subject: setups.TranslationSubject, wanted: Checkpoints, journal: Journal
) -> Arrays:
    """Outcomes of a checkpoint under the masks of every order.

    Returns:
        The arrays of :meth:`TranslationSubject.outcomes`; the first ``steps`` masks follow the
        paper's order (``order``), the others are named in ``further``. ``each <kind>`` (verses,
        layer, head) is |dL(x)/dxi_h|. For the references ``reference_loss_uncut`` (n,) and
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
            f"a curve of {steps} steps has no step at {C5_REMOVED:.0%}. Set steps to 5, 10, 15, ..."
        )
    return at


def further_masks(
    subject: setups.TranslationSubject, plain: masking.HeadTensors, wanted: Checkpoints, n_cut: int
) -> dict[str, masking.HeadTensors]:
    """The masks of the other orders, each at the share at which orders are compared.

    A random order depends only on its draw number: it is the same for all checkpoints and
    trainings.
    """
    orders = {"unnormalised": selection.rank_heads(plain)} if wanted.unnormalised else {}
    heads = [(k, *head) for k in KINDS for head in np.ndindex(*plain[k].shape)]
    for draw in range(wanted.random_orders or 0):
        orders[f"random {draw}"] = random_order(heads, draw)
    return {
        name: selection.order_mask(subject.model, order, n_cut) for name, order in orders.items()
    }


# --- what the checkpoints say ---------------------------------------------------------------------


def outcomes_of(raw: Arrays, i: int) -> Arrays:
    """The outcomes of checkpoint ``i`` of a training, counted from 0."""
    return {
        name: values if name in (*SHARED, "shares") else values[i] for name, values in raw.items()
    }


def _verse_importance(raw: Arrays) -> np.ndarray:
    """The importance of heads by verse, (verses, layers of all kinds, heads)."""
    return np.concatenate([raw[f"each {kind}"] for kind in KINDS], axis=1).astype(float)


def _checkpoint(raw: Arrays, at: int, statistics: Constants) -> Record:
    along, bleu = len(raw["shares"]), scored_cuts(raw).drawn(statistics)
    kept = bleu.map(lambda bleu: stats.kept_above_chance(bleu, bleu[..., :1], nothing=0.0))
    uncut = raw["reference_loss_uncut"]
    nats = np.concatenate([uncut[None], uncut + raw["reference_loss_change"]]) / MILLINAT
    loss = of_losses(nats, raw["reference_pieces"]).drawn(statistics)
    added = loss.map(lambda loss: loss - loss[..., :1])
    record: Record = {
        "updates": int(raw["updates"]),
        "epoch": float(raw["epochs"]),
        "bleu": bleu.value[:along],
        "kept": kept.value[:along],
        "loss": loss.value[:along],
    }
    if (sacrebleus := sacrebleus_own(raw)) is not None:
        record["sacrebleu"] = sacrebleus[:along]
    for order, rows in _compared(raw, at).items():
        suffix = f"_{order}" if order else ""
        for name, numbers in ((f"kept{suffix or '_at'}", kept), (f"added_loss{suffix}", added)):
            record |= {name: None, f"{name}_interval": None}
            if rows:
                mean = numbers.map(lambda numbers, rows=rows: numbers[..., rows].mean(-1))
                record |= {name: mean.value, f"{name}_interval": mean.interval}
    each = _verse_importance(raw)
    flat, mean = each.reshape(len(each), -1), each.mean(0)

    def within(sums: np.ndarray) -> np.ndarray:
        return gini_within(sums.reshape(*sums.shape[:-1], *mean.shape))

    for name, of, value in (
        ("gini", stats.gini, stats.gini(mean.ravel())),
        ("gini_within", within, gini_within(mean)),
    ):
        interval = Scored(flat, of).drawn(statistics).interval
        record |= {name: value, f"{name}_interval": interval}
    return record


def _normalised(scores: np.ndarray) -> np.ndarray:
    """Importance (layers, heads) divided by the l2 norm of each layer."""
    norm = np.linalg.norm(scores, axis=-1, keepdims=True)
    return np.divide(scores, norm, out=np.zeros_like(scores), where=norm > 0)


def _influences(raw: Arrays, at: int) -> dict[str, np.ndarray]:
    """Name of a slope -> each verse's influence on its share of BLEU kept, (verses,)."""
    scored = scored_cuts(raw)
    bleu, of_texts = scored.scores, stats.text_influences(scored.of, scored.counts.astype(float))
    if bleu[0] <= 0:
        return {name: np.zeros(of_texts.shape[1]) for name in KEPT}
    kept = (of_texts - (bleu / bleu[0])[:, None] * of_texts[0]) / bleu[0]
    rows = _compared(raw, at)
    influences = {"importance": kept[at]}
    if rows["random"]:
        influences["random"] = kept[rows["random"]].mean(0)
        influences["kept"] = influences["importance"] - influences["random"]
    return influences


def _compared(raw: Arrays, at: int) -> dict[str, list[int]]:
    """Order -> its rows at the compared share, counting the unmasked model as row 0."""
    names = [str(name).partition(" ")[0] for name in raw["further"]]
    first = len(raw["shares"])
    return {"": [at]} | {
        order: [first + i for i, name in enumerate(names) if name == order]
        for order in ("unnormalised", "random")
    }


def gini_within(scores: np.ndarray) -> np.ndarray:
    """The mean Gini coefficient of the layers of all kinds: (..., layers, heads) to (...)."""
    return stats.gini(scores).mean(-1)


def translating(points: Iterable[Record]) -> list[Record]:
    """The checkpoints that are shown: those with a BLEU of at least 1 with all heads."""
    return [point for point in points if point["bleu"][0] >= 1]


# --- what grows -----------------------------------------------------------------------------------

GROWING: dict[str, Callable[[Record], float]] = {
    "importance": lambda point: point["kept_at"],
    "random": lambda point: point["kept_random"],
    "kept": lambda point: point["kept_at"] - point["kept_random"],
    "loss": lambda point: point["added_loss_random"] - point["added_loss"],
    "gini": lambda point: point["gini_within"],
}
"""Name of a slope -> the quantity, from a checkpoint's record.

The share of BLEU kept by importance, by random orders and their difference, the loss that random
orders add beyond importance, and the Gini coefficient within layers.
"""
KEPT = ("importance", "random", "kept")
"""Slopes of a share of BLEU, which count only checkpoints that translate."""


def slopes(
    trainings: list[Record], texts: list[list[dict[str, np.ndarray]]], statistics: Constants
) -> dict[str, Record]:
    """Slopes over ln(updates) of what grows during training, the untrained model left out.

    Empty where random orders were not measured. Slopes of the BLEU kept are left out where a
    training has fewer than two checkpoints of at least ``least_bleu``.

    Args:
        texts: the verses' influences, by training, checkpoint and name of a slope.

    Returns:
        name -> ``difference``, the mean over trainings, each training's own (``runs``), and a 95% t
        ``interval`` over trainings and, for the BLEU kept, verses, with its standard ``error`` and
        Satterthwaite's degrees of ``freedom``: None with fewer than three trainings.
    """
    trained = [
        [
            (point, influences)
            for point, influences in zip(training["checkpoints"], of_points, strict=True)
            if point["updates"]
        ]
        for training, of_points in zip(trainings, texts, strict=True)
    ]
    if any(point["kept_random"] is None for points in trained for point, _ in points):
        return {}
    fitted: dict[str, Record] = {}
    for name in GROWING:
        least = statistics.least_bleu if name in KEPT else 0
        lines = [[pair for pair in points if pair[0]["bleu"][0] >= least] for points in trained]
        if all(len(points) > 1 for points in lines):
            fitted[name] = _slope(name, lines, statistics)
    return fitted


def _slope(
    name: str, lines: list[list[tuple[Record, dict[str, np.ndarray]]]], statistics: Constants
) -> Record:
    runs, influences = [], []
    for points in lines:
        x = np.log([point["updates"] for point, _ in points])
        weights = (x - x.mean()) / np.square(x - x.mean()).sum()
        runs.append(float(weights @ [GROWING[name](point) for point, _ in points]))
        influences.append(weights @ np.stack([of.get(name, np.zeros(2)) for _, of in points]))
    several = len(runs) >= statistics.least_trainings
    mean = stats.over_trainings(runs, influences) if several else None
    return {
        "difference": float(np.mean(runs)),
        "interval": mean and [mean.low, mean.high],
        "error": mean and mean.error,
        "freedom": mean and mean.freedom,
        "runs": runs,
    }


# --- the measurement ------------------------------------------------------------------------------


def _own(profile: Profile, part: str) -> Own:
    """A training's seed, which of its checkpoints are measured, and in which orders."""
    wanted = profile.checkpoints_of(profile.training_task)
    several = wanted.unnormalised or wanted.random_orders
    removed = {"removed": C5_REMOVED} if several else {}
    described = asdict(wanted)
    for name in ("n_verses", "epochs"):
        if not described[name]:  # as in results from before there was a choice
            del described[name]
    return Own({"checkpoints": described, **removed}, seeds=(seed_in(part),))


@measurement(
    "along_training",
    version=3,
    parameters=["n_verses", "steps"],
    # orders and checkpoints are compared at ``removed``; an unpruned checkpoint needs ``least_bleu``
    # to count in the slopes of the BLEU kept: below it, the ratio is noise
    statistics=Constants(
        resamples=5_000, seed=0, removed=C5_REMOVED, least_bleu=LEAST_BLEU, least_trainings=3
    ),
    halves=("translation",),
    parts=lambda profile, task: tuple(f"training {seed}" for seed in profile.trainings(task)),
    own=_own,
)
def along_training(context: Context, part: str) -> Measured:
    """Outcomes of a training's checkpoints under the masks of every order."""
    profile, task, seed = context.profile, context.task, seed_in(part)
    profile.check_training(task, seed)
    wanted = profile.checkpoints_of(task)
    points = chosen(points_of(context, seed, wanted.within), wanted)

    def at(point: Point) -> setups.TranslationSubject:
        return context.subject(seed, **point.kept)

    # not side by side: each has its own model, and this process would hold all of them
    per_point = in_turn(
        [lambda point=point: measured_at(at(point), wanted, context.journal) for point in points]
    )
    raw: Arrays = {
        name: values if name in SHARED else np.stack([arrays[name] for arrays in per_point])
        for name, values in per_point[0].items()
    }
    raw |= {
        "updates": np.array([point.updates for point in points]),
        "epochs": np.array([point.epoch for point in points]),
        "validation_bleu": np.array([point.bleu for point in points]),
        "shares": np.arange(profile.steps + 1) / profile.steps,
    }
    return at(points[-1]).measured(raw, len(raw["reference_lengths"]))


@along_training.summary
def _(outcomes: Outcomes, statistics: Constants) -> dict[str, Any]:
    """Values of all trainings that were measured; one is enough.

    ``trainings`` has the checkpoints of each in order of updates; see :func:`slopes`.
    """
    outcomes = dict(sorted(outcomes.items(), key=lambda part: seed_in(part[0])))
    shares = next(iter(outcomes.values()))["shares"]
    at = int(np.flatnonzero(np.isclose(shares, statistics.removed))[0])
    trainings, texts = [], []
    for part, raw in outcomes.items():
        points = [outcomes_of(raw, i) for i in range(len(raw["updates"]))]
        checkpoints = [_checkpoint(point, at, statistics) for point in points]
        importance = [_normalised(_verse_importance(point).mean(0)).ravel() for point in points]
        for checkpoint, scores in zip(checkpoints, importance, strict=True):
            checkpoint["settled"] = float(scipy.stats.spearmanr(scores, importance[-1]).statistic)
        trainings.append({"seed": seed_in(part), "checkpoints": checkpoints})
        texts.append([_influences(point, at) for point in points])
    trained = [
        [point["updates"] for point in training["checkpoints"] if point["updates"]]
        for training in trainings
    ]
    values = {
        "shares": shares,
        "removed": statistics.removed,
        "trainings": trainings,
        "n_trainings": len(trainings),
        "log_range": float(np.mean([np.ptp(np.log(updates)) for updates in trained])),
    }
    fitted = slopes(trainings, texts, statistics)
    return {**values, "slopes": fitted} if fitted else values
