"""What orders of removal say beside each other: areas, and the contrasts that were fixed before."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.bounds import ORDERS_UP_TO
from headprune_lib.replication.measurements.measurement import Runs
from headprune_lib.replication.measurements.orders import training_in
from headprune_lib.replication.measurements.records import interval_record
from headprune_lib.replication.metrics import MILLINAT, SCORES, corpus_bleu, unpack
from headprune_lib.replication.stats import count_chunks
from headprune_lib.replication.store import Arrays, Outcomes

COMBINED = "importance-entropy chosen"
"""The weight of importance is chosen on training text."""
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
    """Resamples of the bootstrap over trainings and texts."""

    resamples: int = 5_000
    seed: int = 0
    up_to: float = ORDERS_UP_TO


class Estimate(TypedDict):
    """A value with its 95% interval and the standard error of its resamples."""

    value: float
    interval: list[float]
    error: float


class Order(TypedDict):
    """Of an order: mean curves over ``trainings``, and its two areas up to ``ORDERS_UP_TO``.

    ``kept`` is the share of the metric above chance, ``area`` its mean along the curve;
    ``added_loss`` is what the loss of a text grows by, in nats (of a translation, in the mean over
    its pieces), in the mean along the curve. ``said`` is what was chosen or drawn on every training
    that the order was followed on.
    """

    score: np.ndarray
    kept: np.ndarray
    log_loss: np.ndarray
    area: Estimate
    added_loss: Estimate
    said: list[str]
    trainings: list[int]


class Contrast(TypedDict):
    """The first order's area minus the second's, and the second's added loss minus the first's, so
    that more is better in both; on the trainings that have both orders.
    """

    area: Estimate
    loss: Estimate
    trainings: list[int]


class Values(TypedDict):
    """By order, and by contrast.

    Orders are shown on the trainings that all of them have, so that they can stand beside each
    other; each on its own where no training has all. A contrast is taken over all trainings that
    its two orders have. ``least_above_chance`` is the smallest score above chance of the uncut model
    in all resamples: where it is not above 0, the share of it that is kept says nothing.
    """

    shares: np.ndarray
    chance: float
    least_above_chance: float
    orders: dict[str, Order]
    contrasts: dict[str, Contrast]


@dataclass(frozen=True)
class Followed:
    """What an order did on its trainings, run after run.

    Attributes:
        counts: (runs, steps, n, k), each text's part of the sums that ``of`` makes a score from.
        chance: the score that needs no model.
        loss_area: (runs, n) in thousandths of a nat.
        log_loss: (runs, steps) in nats.
        of_runs: (runs,) the seed of each run's training.
    """

    counts: np.ndarray
    of: Callable[[np.ndarray], np.ndarray]
    chance: float
    shares: np.ndarray
    loss_area: np.ndarray
    log_loss: np.ndarray
    said: list[str]
    of_runs: np.ndarray

    @property
    def trainings(self) -> list[int]:
        """Seeds, ascending."""
        return [int(seed) for seed in np.unique(self.of_runs)]

    def on(self, trainings: Sequence[int]) -> Followed:
        """The same order on these trainings alone."""
        rows = np.isin(self.of_runs, trainings)
        return dataclasses.replace(
            self,
            counts=self.counts[rows],
            loss_area=self.loss_area[rows],
            log_loss=self.log_loss[rows],
            said=[said for said, kept in zip(self.said, rows, strict=True) if kept],
            of_runs=self.of_runs[rows],
        )

    def by_training(self, values: np.ndarray) -> np.ndarray:
        """(runs, ...) as the mean over each training's runs: (trainings, ...)."""
        return np.stack([values[self.of_runs == one].mean(0) for one in self.trainings])

    def kept(self, curve: np.ndarray) -> np.ndarray:
        """Share of the score above chance of the first entry along the last axis, 0 without any."""
        above = curve - self.chance
        whole = above[..., :1]
        return np.divide(above, whole, out=np.zeros_like(above), where=whole > 0)


@dataclass(frozen=True)
class _Drawn:
    """An order's areas: what was found, and on resampled trainings and texts.

    ``uncut`` is the smallest score of the uncut model in all resamples.
    """

    uncut: float
    area: float
    areas: np.ndarray
    loss: float
    losses: np.ndarray


def values_of(outcomes: Outcomes, runs: Runs, statistics: Statistics) -> Values:
    """What a page says; orders are compared on the same resamples of trainings and texts."""
    followed = follow(outcomes, runs)
    drawn = {name: _drawn(one, statistics) for name, one in followed.items()}
    shown = _on_shared_trainings(followed)
    return {
        "shares": max((one.shares for one in followed.values()), key=len),
        "chance": (chance := next(iter(followed.values())).chance),
        "least_above_chance": min(one.uncut for one in drawn.values()) - chance,
        "orders": {
            name: _order(
                one,
                drawn[name] if one is followed[name] else _drawn(one, statistics),
                followed[name].said,
            )
            for name, one in shown.items()
        },
        "contrasts": {
            name: contrast(followed[one], followed[other], common, statistics)
            for name, (one, other) in CONTRASTS.items()
            if one in followed and other in followed
            if (common := sorted({*followed[one].trainings} & {*followed[other].trainings}))
        },
    }


def _on_shared_trainings(followed: dict[str, Followed]) -> dict[str, Followed]:
    shared = set.intersection(*({*one.trainings} for one in followed.values()))
    if not shared:
        return followed
    return {
        name: one if {*one.trainings} == shared else one.on(sorted(shared))
        for name, one in followed.items()
    }


def follow(outcomes: Outcomes, runs: Runs) -> dict[str, Followed]:
    """Order -> what it did on all trainings whose parts are there."""
    parts: dict[str, list[Followed]] = {}
    for name, raw in outcomes.items():
        seeds = np.full(len(raw["said"]), runs[name][0]["seed"])
        parts.setdefault(training_in(name)[0], []).append(_followed(raw, seeds))
    return {order: _joined(some) for order, some in parts.items()}


def _followed(raw: Arrays, of_runs: np.ndarray) -> Followed:
    if "counts_change" in raw:
        packed = raw["counts_uncut"] + raw["counts_change"]
        counts, of, chance = unpack(packed, raw["reference_lengths"]), corpus_bleu, 0.0
    else:
        score, labels = SCORES[str(raw["metric"])], raw["labels"]
        counts, of = score.counts(raw["correct"], labels), score.of
        chance = score.chance(labels)
    said = [str(one) for one in raw["said"]]
    return Followed(
        counts, of, chance, raw["shares"], raw["loss_area"], raw["log_loss"], said, of_runs
    )


def _joined(parts: list[Followed]) -> Followed:
    return dataclasses.replace(
        parts[0],
        counts=np.concatenate([one.counts for one in parts]),
        loss_area=np.concatenate([one.loss_area for one in parts]),
        log_loss=np.concatenate([one.log_loss for one in parts]),
        said=[said for one in parts for said in one.said],
        of_runs=np.concatenate([one.of_runs for one in parts]),
    )


def _order(one: Followed, drawn: _Drawn, every: list[str]) -> Order:
    curve = one.by_training(one.of(one.counts.sum(2))).mean(0)
    return {
        "score": curve,
        "kept": one.kept(curve),
        "log_loss": one.by_training(one.log_loss).mean(0),
        "area": _estimate(drawn.area, drawn.areas),
        "added_loss": _estimate(drawn.loss, drawn.losses),
        "said": [said for said in every if said],
        "trainings": one.trainings,
    }


def contrast(
    one: Followed, other: Followed, trainings: list[int], statistics: Statistics
) -> Contrast:
    """What the first order keeps more than the second, on the trainings that both have."""
    better, worse = (_drawn(each.on(trainings), statistics) for each in (one, other))
    return {
        "area": _estimate(better.area - worse.area, better.areas - worse.areas),
        "loss": _estimate(worse.loss - better.loss, worse.losses - better.losses),
        "trainings": trainings,
    }


def _estimate(value: float, drawn: np.ndarray) -> Estimate:
    low, high = interval_record(drawn)
    return {"value": value, "interval": [low, high], "error": float(drawn.std())}


def _drawn(one: Followed, statistics: Statistics) -> _Drawn:
    inside = one.shares <= statistics.up_to + 1e-9
    shares, counts = one.shares[inside], one.counts[:, inside]  # (runs, steps, n, k)

    def area(curves: np.ndarray) -> np.ndarray:
        return stats.area_under_curve(shares, one.kept(curves))

    areas = np.empty(statistics.resamples)
    losses, uncut = np.empty(statistics.resamples), np.empty(statistics.resamples)
    for rows, curves, added, chosen in _resampled(one, counts, statistics):
        each = np.arange(len(chosen))[:, None]
        curve = curves[each, chosen].mean(1)
        areas[rows], uncut[rows] = area(curve), curve[:, 0]
        losses[rows] = added[each, chosen].mean(1)
    whole = one.by_training(one.of(counts.sum(2)))
    loss = one.by_training(one.loss_area.mean(-1)).mean()
    found = float(area(whole.mean(0)))
    return _Drawn(float(uncut.min()), found, areas, float(loss) / MILLINAT, losses / MILLINAT)


def _resampled(
    one: Followed, counts: np.ndarray, statistics: Statistics
) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray]]:
    """Chunks of resamples: their rows, (chunk, trainings, steps) scores, (chunk, trainings) added
    loss, and (chunk, trainings) which trainings were drawn: the same for every order.
    """
    runs, steps, n, k = counts.shape
    flat = np.moveaxis(counts, 2, 0).reshape(n, -1).astype(np.float32)
    generator = np.random.default_rng([statistics.seed, 1])
    loss, n_trainings = one.loss_area.T.astype(np.float32), len(one.trainings)
    for rows, drawn in count_chunks(n, statistics.resamples, statistics.seed):
        sums = (drawn @ flat).reshape(len(drawn), runs, steps, k).astype(np.float64)
        scores = np.moveaxis(one.of(sums), 1, 0)
        added = ((drawn @ loss) / n).T
        chosen = generator.integers(0, n_trainings, (len(drawn), n_trainings))
        yield (
            rows,
            np.moveaxis(one.by_training(scores), 0, 1),
            np.moveaxis(one.by_training(added), 0, 1),
            chosen,
        )
