"""What a set of pruning curves says, from the outcomes along each order of removal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.bounds import C8_UP_TO, TOLERANCES
from headprune_lib.replication.measurements.measurement import Half
from headprune_lib.replication.measurements.orders import IMPORTANCE, training_in
from headprune_lib.replication.measurements.records import (
    Difference,
    Prunable,
    difference_record,
    interval_record,
    prunable_record,
)
from headprune_lib.replication.metrics import SCORES, Score, corpus_bleu
from headprune_lib.replication.store import Arrays, Outcomes
from headprune_lib.replication.store.verses import BESIDE, all_counts


@dataclass(frozen=True)
class Statistics:
    """Resamples of the bootstrap, and the losses at which the share that can go is given.

    ``early`` is the share of the heads up to which orders are compared besides the whole.
    """

    resamples: int = 5_000
    seed: int = 0
    tolerances: tuple[float, ...] = TOLERANCES
    early: float = C8_UP_TO


class Curve(TypedDict, total=False):
    """Of an order: the mean score after each step with its interval, and that of every run.

    ``sacrebleu`` is the mean in sacrebleu's own way, where the score is BLEU of Moses' tokens.
    """

    mean: np.ndarray
    interval: np.ndarray
    runs: np.ndarray
    names: list[str]
    log_loss: np.ndarray
    accuracy: np.ndarray
    sacrebleu: np.ndarray


class Kept(TypedDict):
    """Share of the score above chance that is kept after each step, with its 95% interval."""

    kept: np.ndarray
    interval: np.ndarray


class Values(TypedDict, total=False):
    """By order: its curve, what is kept, the share that can go, and areas beside importance's."""

    shares: np.ndarray
    chance: float
    curves: dict[str, Curve]
    kept: dict[str, Kept]
    prunable: dict[str, dict[str, Prunable]]
    area_differences: dict[str, Difference]
    early_area_differences: dict[str, Difference]
    scores: dict[str, np.ndarray]


@dataclass(frozen=True)
class Curves:
    """Scores of several orders, and the same on resampled test sets, paired.

    Attributes:
        runs: order -> (runs, steps + 1) scores.
        drawn: order -> (resamples, steps + 1) mean scores.
    """

    shares: np.ndarray
    chance: float
    runs: dict[str, np.ndarray]
    drawn: dict[str, np.ndarray]

    def difference(
        self, one: str, other: str, statistic: Callable[[np.ndarray], np.ndarray]
    ) -> Difference:
        """A statistic of one order's mean curve minus that of another's, paired."""
        return difference_record(
            statistic(self.runs[one].mean(0)) - statistic(self.runs[other].mean(0)),
            statistic(self.drawn[one]) - statistic(self.drawn[other]),
        )

    def area(self, scores: np.ndarray, up_to: float = 1.0) -> np.ndarray:
        """Mean score along the curve up to a share removed: the area under it over that width."""
        inside = self.shares <= up_to + 1e-9
        return stats.area_under_curve(self.shares[inside], scores[..., inside])

    def kept(self, scores: np.ndarray) -> np.ndarray:
        """Share of the unpruned model's score above chance; NaN where it has none to keep."""
        above = scores - self.chance
        whole = np.broadcast_to(above[..., :1], above.shape)
        return np.divide(above, whole, out=np.full_like(above, np.nan), where=whole > 0)


MAIN = "importance main"
"""Importance on the first training alone, which is all that most other orders are measured on."""
_PER_RUN = ("names", "order", "correct", "loss", "log_loss")


def parts_of_orders(parts: Iterable[str]) -> dict[str, list[str]]:
    """Order -> the parts that its runs are in, the first training's before the further ones'.

    A further training joins once all orders that have any have it, those by importance among them:
    only then are the means of their runs of the same trainings. Where a further training was asked
    for by itself, each part stands for itself.
    """
    trainings: dict[str, dict[int | None, str]] = {}
    for part in parts:
        order, training = training_in(part)
        trainings.setdefault(order, {})[training] = part
    if not all(None in of_order for of_order in trainings.values()):
        return {part: [part] for of_order in trainings.values() for part in of_order.values()}
    further = {
        order: {training for training in of_order if training is not None}
        for order, of_order in trainings.items()
    }
    compared = [
        each for order, each in further.items() if each or order.split(" ")[-1] == IMPORTANCE
    ]
    shared = sorted(set.intersection(*compared)) if compared else []
    return {
        order: [of_order[None], *(of_order[training] for training in shared if further[order])]
        for order, of_order in trainings.items()
    }


def join_trainings(outcomes: Outcomes) -> Outcomes:
    """The runs of further trainings behind those of the first, order by order."""
    joined = {}
    for order, parts in parts_of_orders(outcomes).items():
        runs = [outcomes[part] for part in parts]
        joined[order] = runs[0]
        if len(runs) > 1:
            joined[order] = runs[0] | {
                name: np.concatenate([run[name] for run in runs])
                for name in _PER_RUN
                if all(name in run for run in runs)
            }
    return joined


def read_curves(half: Half, outcomes: Outcomes, statistics: Statistics) -> Curves:
    """The curves in the outcomes of a result's parts."""
    first = next(iter(outcomes.values()))
    if half == "translation":
        systems = _joined(outcomes)
        # one kind's heads or another's: the trainings are the same
        together = {name: IMPORTANCE for name in systems if name.endswith(f" {IMPORTANCE}")}
        return Curves(
            first["shares"],
            0.0,
            {name: corpus_bleu(counts.sum(2)) for name, counts in systems.items()},
            stats.bootstrap_curves(
                systems, statistics.resamples, statistics.seed, corpus_bleu, together
            ),
        )
    score, labels = score_of(first), first["labels"]
    correct = {name: raw["correct"] for name, raw in outcomes.items()}
    if IMPORTANCE in correct:
        correct[MAIN] = correct[IMPORTANCE][:1]
    return Curves(
        first["shares"],
        score.chance(labels),
        {name: score(curve, labels) for name, curve in correct.items()},
        _drawn(score, correct, labels, statistics),
    )


def score_of(raw: Arrays) -> Score:
    """The score that a part of the encoder half was measured in."""
    return SCORES[str(raw.get("metric", "accuracy"))]


def _joined(outcomes: Outcomes, way: str = "") -> dict[str, np.ndarray]:
    """Order -> counts of its runs; ``way`` is what begins the names of the counts."""
    found = {
        order: np.concatenate([_systems(outcomes[part], way) for part in parts])
        for order, parts in parts_of_orders(outcomes).items()
    }
    if IMPORTANCE in outcomes and len(found[IMPORTANCE]) > 1:
        found[MAIN] = found[IMPORTANCE][:1]
    return found


def _systems(raw: Arrays, way: str) -> np.ndarray:
    """Counts (runs, steps + 1, verses, 10), the unmasked model's first in each run."""
    uncut, cuts = all_counts(raw, way)
    runs = cuts.reshape(len(raw["names"]), -1, *uncut.shape)
    return np.concatenate([np.broadcast_to(uncut, (len(runs), 1, *uncut.shape)), runs], axis=1)


def _drawn(
    score: Score, correct: Mapping[str, np.ndarray], labels: np.ndarray, statistics: Statistics
) -> dict:
    resamples, seed = statistics.resamples, statistics.seed
    if score is SCORES["accuracy"]:  # a plain mean; through its counts the sixth digit would change
        return stats.bootstrap_curves(correct, resamples, seed)
    counts = {name: score.counts(curve, labels) for name, curve in correct.items()}
    return stats.bootstrap_curves(counts, resamples, seed, score.of)


def curve_values(half: Half, outcomes: Outcomes, curves: Curves, statistics: Statistics) -> Values:
    """What a page says of every order by itself."""
    found: dict[str, Curve] = {}
    for name, runs in curves.runs.items():
        found[name] = {
            "mean": runs.mean(0),
            "runs": runs,
            "interval": interval_record(curves.drawn[name]).T,
        }
        if half == "encoder":
            found[name] |= _encoder_curve(outcomes, name, len(runs))
    if all(f"{BESIDE}counts_uncut" in raw for raw in outcomes.values()):
        for name, counts in _joined(outcomes, BESIDE).items():
            found[name]["sacrebleu"] = corpus_bleu(counts.sum(2)).mean(0)
    return {
        "shares": curves.shares,
        "chance": curves.chance,
        "curves": found,
        "kept": {
            name: {
                "kept": curves.kept(runs.mean(0)),
                "interval": interval_record(curves.kept(curves.drawn[name])).T,
            }
            for name, runs in curves.runs.items()
        },
        "prunable": {
            name: prunable_record(
                curves.shares,
                runs.mean(0),
                curves.drawn[name],
                curves.chance,
                statistics.tolerances,
            )
            for name, runs in curves.runs.items()
        },
    }


def _encoder_curve(outcomes: Outcomes, name: str, n_runs: int) -> dict[str, Any]:
    raw = outcomes[IMPORTANCE if name == MAIN else name]
    found = {
        "names": [str(run) for run in raw["names"][:n_runs]],
        "log_loss": raw["log_loss"][:n_runs].mean(0),
    }
    if "metric" in raw:  # accuracy beside a score that is not
        found["accuracy"] = raw["correct"][:n_runs].mean((0, 2))
    return found
