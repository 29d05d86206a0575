"""What orders of removal say beside each other: areas, and the contrasts that were fixed before."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.bounds import ORDERS_UP_TO
from headprune_lib.replication.measurements.curves import Drawn, Scored, joined, scored
from headprune_lib.replication.measurements.measurement import Runs
from headprune_lib.replication.measurements.records import Resamples
from headprune_lib.replication.metrics import MILLINAT
from headprune_lib.replication.order_names import parse_part
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
class Statistics(Resamples):
    """Resamples of trainings and texts; orders are compared up to a share of the heads."""

    up_to: float = ORDERS_UP_TO


class Estimate(TypedDict):
    """A value with its 95% interval and the standard error of its resamples."""

    value: float
    interval: list[float]
    error: float


@dataclass(frozen=True)
class Followed:
    """What an order did on its trainings, run after run.

    Attributes:
        scored: (runs, steps, texts, k).
        shares: (steps,) of the heads, removed.
        of_runs: (runs, ...) each: the ``seed`` of a run's training, ``said``, what was chosen or
            drawn for it, ``log_loss`` (steps,) in nats, and ``loss_area`` (texts,) in thousandths.
    """

    scored: Scored
    shares: np.ndarray
    of_runs: Arrays

    @property
    def trainings(self) -> list[int]:
        """Seeds, ascending."""
        return [int(seed) for seed in np.unique(self.of_runs["seed"])]

    def on(self, trainings: Sequence[int]) -> Followed:
        """The same order on these trainings alone."""
        rows = np.isin(self.of_runs["seed"], trainings)
        return dataclasses.replace(
            self,
            scored=dataclasses.replace(self.scored, counts=self.scored.counts[rows]),
            of_runs={name: values[rows] for name, values in self.of_runs.items()},
        )

    def by_training(self, values: np.ndarray) -> np.ndarray:
        """(runs, ...) as the mean over each training's runs: (trainings, ...)."""
        return np.stack([values[self.of_runs["seed"] == seed].mean(0) for seed in self.trainings])

    def kept(self, curve: np.ndarray) -> np.ndarray:
        """Share of the whole model's score above chance, along (..., steps)."""
        return stats.kept_above_chance(curve, curve[..., :1], self.scored.chance, nothing=0.0)


@dataclass(frozen=True)
class _Areas:
    """An order's areas up to a share of the heads, on resampled trainings and texts.

    ``kept`` is the mean share kept along the curve; ``added`` what the loss of a text grows by, in
    nats; ``uncut`` the smallest score of the uncut model in all resamples.
    """

    kept: Drawn
    added: Drawn
    uncut: float


def values_of(outcomes: Outcomes, runs: Runs, statistics: Statistics) -> dict[str, Any]:
    """What a page says; orders are compared on the same resamples of trainings and texts.

    Orders are shown on the trainings that all of them have, so that they can stand beside each
    other; each on its own where no training has all. A contrast is taken over all trainings that
    its two orders have.

    Returns:
        ``shares``, ``chance``, ``least_above_chance`` (the smallest score above chance of the uncut
        model in all resamples: where it is not above 0, what is kept of it says nothing),
        ``orders`` (see :func:`_order`) and ``contrasts`` (see :func:`contrast`).
    """
    followed = follow(outcomes, runs)
    areas = {name: _areas(order, statistics) for name, order in followed.items()}
    shown = _on_shared_trainings(followed)
    chance = next(iter(followed.values())).scored.chance
    return {
        "shares": max((order.shares for order in followed.values()), key=len),
        "chance": chance,
        "least_above_chance": min(area.uncut for area in areas.values()) - chance,
        "orders": {
            name: _order(
                order,
                areas[name] if order is followed[name] else _areas(order, statistics),
                followed[name].of_runs["said"],
            )
            for name, order in shown.items()
        },
        "contrasts": {
            name: contrast(followed[first], followed[second], common, statistics)
            for name, (first, second) in CONTRASTS.items()
            if first in followed and second in followed
            if (common := sorted({*followed[first].trainings} & {*followed[second].trainings}))
        },
    }


def _on_shared_trainings(followed: dict[str, Followed]) -> dict[str, Followed]:
    shared = set.intersection(*({*order.trainings} for order in followed.values()))
    if not shared:
        return followed
    return {
        name: order if {*order.trainings} == shared else order.on(sorted(shared))
        for name, order in followed.items()
    }


def follow(outcomes: Outcomes, runs: Runs) -> dict[str, Followed]:
    """Order -> what it did on all trainings whose parts are there."""
    parts: dict[str, list[str]] = {}
    for name in outcomes:
        parts.setdefault(parse_part(name).curve, []).append(name)
    followed = {}
    for order, names in parts.items():
        raws = [outcomes[name] for name in names]
        of_runs = {
            what: np.concatenate([raw[what] for raw in raws])
            for what in ("said", "log_loss", "loss_area")
        }
        seeds = [runs[name][0]["seed"] for name in names]
        of_runs["seed"] = np.repeat(seeds, [len(raw["said"]) for raw in raws])
        followed[order] = Followed(joined([*map(scored, raws)]), raws[0]["shares"], of_runs)
    return followed


def _order(followed: Followed, areas: _Areas, said: np.ndarray) -> dict[str, Any]:
    """Mean curves over ``trainings``, and the two areas, of the share kept and of the added loss.

    A translation's loss is the mean over its pieces. ``said`` is of every training that the order
    was followed on.
    """
    curve = followed.by_training(followed.scored.scores).mean(0)
    return {
        "score": curve,
        "kept": followed.kept(curve),
        "log_loss": followed.by_training(followed.of_runs["log_loss"]).mean(0),
        "area": _estimate(areas.kept),
        "added_loss": _estimate(areas.added),
        "said": [word for word in said.tolist() if word],
        "trainings": followed.trainings,
    }


def contrast(
    first: Followed, second: Followed, trainings: list[int], statistics: Statistics
) -> dict[str, Any]:
    """What the first order keeps more and adds less than the second, on trainings that both have.

    Returns:
        the first order's ``area`` minus the second's, and the second's added ``loss`` minus the
        first's, so that more is better in both; and the ``trainings``.
    """
    better, worse = (_areas(order.on(trainings), statistics) for order in (first, second))
    return {
        "area": _estimate(better.kept - worse.kept),
        "loss": _estimate(worse.added - better.added),
        "trainings": trainings,
    }


def _estimate(area: Drawn) -> Estimate:
    return {"value": area.value, "interval": [*area.interval], "error": float(area.drawn.std())}


def _areas(followed: Followed, statistics: Statistics) -> _Areas:
    inside = followed.shares <= statistics.up_to + 1e-9
    shares = followed.shares[inside]
    counts = followed.scored.counts[:, inside]  # (runs, steps, n, k)

    def area(curves: np.ndarray) -> np.ndarray:
        return stats.area_under_curve(shares, followed.kept(curves))

    kept, losses, uncut = np.empty((3, statistics.resamples))
    for rows, curves, added, chosen in _resampled(followed, counts, statistics):
        draw = np.arange(len(chosen))[:, None]
        curve = curves[draw, chosen].mean(1)
        kept[rows], uncut[rows] = area(curve), curve[:, 0]
        losses[rows] = added[draw, chosen].mean(1)
    whole = followed.by_training(followed.scored.of(counts.sum(2))).mean(0)
    loss = followed.by_training(followed.of_runs["loss_area"].mean(-1)).mean()
    added = Drawn(float(loss) / MILLINAT, losses / MILLINAT)
    return _Areas(Drawn(float(area(whole)), kept), added, float(uncut.min()))


def _resampled(
    followed: Followed, counts: np.ndarray, statistics: Statistics
) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray]]:
    """Chunks of resamples: their rows, (chunk, trainings, steps) scores, (chunk, trainings) added
    loss, and (chunk, trainings) which trainings were drawn: the same for every order.
    """
    runs, steps, n, k = counts.shape
    flat = np.moveaxis(counts, 2, 0).reshape(n, -1).astype(np.float32)
    generator = np.random.default_rng([statistics.seed, 1])
    loss, n_trainings = followed.of_runs["loss_area"].T.astype(np.float32), len(followed.trainings)
    for rows, drawn in count_chunks(n, statistics.resamples, statistics.seed):
        sums = (drawn @ flat).reshape(len(drawn), runs, steps, k).astype(np.float64)
        scores = np.moveaxis(followed.scored.of(sums), 1, 0)
        added = ((drawn @ loss) / n).T
        chosen = generator.integers(0, n_trainings, (len(drawn), n_trainings))
        yield (
            rows,
            np.moveaxis(followed.by_training(scores), 0, 1),
            np.moveaxis(followed.by_training(added), 0, 1),
            chosen,
        )
