"""What orders of removal say beside each other: areas, and the contrasts that were fixed before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.measurements.records import interval_record
from headprune_lib.replication.stats.bootstrap import count_chunks
from headprune_lib.replication.stats.losses import MILLINAT
from headprune_lib.replication.stats.metrics import SCORES, Score
from headprune_lib.replication.store import Arrays, Outcomes

UP_TO = 0.5
"""Share of the heads up to which orders are compared."""
COMBINED = "importance-entropy chosen"
"""The weight of importance is chosen on training sentences."""
CONTROL = "importance-entropy shuffled"
"""The same with entropies that change places within their layer."""
CONTRASTS = {
    "combined against importance": (COMBINED, "importance"),
    "combined against its control": (COMBINED, CONTROL),
    "entropy against random": ("entropy", "random"),
    "scored again against once": ("importance rescored", "importance"),
    "not normalised against normalised": ("importance unnormalised", "importance"),
}
"""Name -> the two orders; the second is the condition of the first, the others stand alone."""


@dataclass(frozen=True)
class Statistics:
    """Resamples of the bootstrap over trainings and examples."""

    resamples: int = 5_000
    seed: int = 0
    up_to: float = UP_TO


class Estimate(TypedDict):
    """A value with its 95% interval and the standard error of its resamples."""

    value: float
    interval: list[float]
    error: float


class Order(TypedDict):
    """Of an order: mean curves over trainings, and its two areas up to ``UP_TO``.

    ``kept`` is the share of the metric above chance, ``area`` its mean along the curve;
    ``added_loss`` is what the loss grows by, in nats, in the mean along the curve.
    """

    score: np.ndarray
    kept: np.ndarray
    log_loss: np.ndarray
    area: Estimate
    added_loss: Estimate
    said: list[str]


class Values(TypedDict):
    """By order, and by contrast: the first order's area minus the second's (``area``), and the
    second's added loss minus the first's (``loss``), so that more is better in both.
    """

    shares: np.ndarray
    chance: float
    n_trainings: int
    orders: dict[str, Order]
    contrasts: dict[str, dict[str, Estimate]]


@dataclass(frozen=True)
class _Drawn:
    """An order's areas: what was found, and on resampled trainings and examples."""

    area: float
    areas: np.ndarray
    loss: float
    losses: np.ndarray


def values_of(outcomes: Outcomes, statistics: Statistics) -> Values:
    """What a page says; orders are compared on the same resamples of trainings and examples."""
    first = next(iter(outcomes.values()))
    score, labels = SCORES[str(first["metric"])], first["labels"]
    chance = score.chance(labels)
    trainings = np.unique(first["trainings"])
    drawn = {
        name: _drawn(raw, score, chance, trainings, statistics) for name, raw in outcomes.items()
    }
    return {
        "shares": max((raw["shares"] for raw in outcomes.values()), key=len),
        "chance": chance,
        "n_trainings": len(trainings),
        "orders": {
            name: _order(raw, score, chance, trainings, drawn[name])
            for name, raw in outcomes.items()
        },
        "contrasts": {
            name: {
                "area": _estimate(
                    drawn[one].area - drawn[other].area, drawn[one].areas - drawn[other].areas
                ),
                "loss": _estimate(
                    drawn[other].loss - drawn[one].loss, drawn[other].losses - drawn[one].losses
                ),
            }
            for name, (one, other) in CONTRASTS.items()
            if one in drawn and other in drawn
        },
    }


def _estimate(value: float, drawn: np.ndarray) -> Estimate:
    low, high = interval_record(drawn)
    return {"value": value, "interval": [low, high], "error": float(drawn.std())}


def _order(raw: Arrays, score: Score, chance: float, trainings: np.ndarray, drawn: _Drawn) -> Order:
    curve = of_trainings(score(raw["correct"], raw["labels"]), raw["trainings"], trainings).mean(0)
    return {
        "score": curve,
        "kept": _kept(curve, chance),
        "log_loss": of_trainings(raw["log_loss"], raw["trainings"], trainings).mean(0),
        "area": _estimate(drawn.area, drawn.areas),
        "added_loss": _estimate(drawn.loss, drawn.losses),
        "said": [str(one) for one in raw["said"] if one],
    }


def of_trainings(values: np.ndarray, of_runs: np.ndarray, trainings: np.ndarray) -> np.ndarray:
    """(runs, ...) as the mean over each training's runs: (trainings, ...)."""
    return np.stack([values[of_runs == one].mean(0) for one in trainings])


def _kept(curve: np.ndarray, chance: float) -> np.ndarray:
    """Share of the score above chance of the first entry along the last axis."""
    above = curve - chance
    whole = above[..., :1]
    return np.divide(above, whole, out=np.zeros_like(above), where=whole > 0)


def _drawn(
    raw: Arrays, score: Score, chance: float, trainings: np.ndarray, statistics: Statistics
) -> _Drawn:
    inside = raw["shares"] <= statistics.up_to + 1e-9
    shares = raw["shares"][inside]
    counts = score.counts(raw["correct"][:, inside], raw["labels"])  # (runs, steps, n, k)

    def area(curves: np.ndarray) -> np.ndarray:
        return stats.area_under_curve(shares, _kept(curves, chance))

    areas = np.empty(statistics.resamples)
    losses = np.empty(statistics.resamples)
    for rows, curves, added, chosen in _resampled(raw, counts, score, trainings, statistics):
        each = np.arange(len(chosen))[:, None]
        areas[rows] = area(curves[each, chosen].mean(1))
        losses[rows] = added[each, chosen].mean(1)
    whole = of_trainings(score.of(counts.sum(2)), raw["trainings"], trainings)
    loss = of_trainings(raw["loss_area"].mean(-1), raw["trainings"], trainings).mean()
    return _Drawn(float(area(whole.mean(0))), areas, float(loss) / MILLINAT, losses / MILLINAT)


def _resampled(
    raw: Arrays,
    counts: np.ndarray,
    score: Score,
    trainings: np.ndarray,
    statistics: Statistics,
) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray]]:
    """Chunks of resamples: their rows, (chunk, trainings, steps) scores, (chunk, trainings) added
    loss, and (chunk, trainings) which trainings were drawn: the same for every order.
    """
    runs, steps, n, k = counts.shape
    flat = np.moveaxis(counts, 2, 0).reshape(n, -1).astype(np.float32)
    generator = np.random.default_rng([statistics.seed, 1])
    loss = raw["loss_area"].T.astype(np.float32)
    for rows, drawn in count_chunks(n, statistics.resamples, statistics.seed):
        sums = (drawn @ flat).reshape(len(drawn), runs, steps, k).astype(np.float64)
        scores = np.moveaxis(score.of(sums), 1, 0)
        added = ((drawn @ loss) / n).T
        chosen = generator.integers(0, len(trainings), (len(drawn), len(trainings)))
        yield (
            rows,
            np.moveaxis(of_trainings(scores, raw["trainings"], trainings), 0, 1),
            np.moveaxis(of_trainings(added, raw["trainings"], trainings), 0, 1),
            chosen,
        )
