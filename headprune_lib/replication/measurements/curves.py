"""Pruning curves: what texts contribute to a score at each step of an order, and what that says.

Every curve has the axes (run, step, text). A run is a training or a draw of an order, a step a share
of the heads removed; the first step is the whole model's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.bounds import C8_UP_TO, TOLERANCES
from headprune_lib.replication.measurements.records import (
    Difference,
    Resamples,
    difference_record,
    interval_record,
    prunable_record,
)
from headprune_lib.replication.metrics import MILLINAT, SCORES, Score, corpus_bleu, unpack
from headprune_lib.replication.order_names import IMPORTANCE, parse_part
from headprune_lib.replication.store import Arrays, Outcomes
from headprune_lib.replication.store.verses import BESIDE

# --- scores of texts ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawn:
    """A number or an array of them, (...), and the same on resampled texts, (resamples, ...)."""

    value: Any
    drawn: np.ndarray

    def __sub__(self, other: Drawn) -> Drawn:
        """Paired: both are on the same resamples."""
        return Drawn(self.value - other.value, self.drawn - other.drawn)

    def map(self, statistic: Callable[..., np.ndarray], *others: Drawn) -> Drawn:
        """What a statistic makes of the numbers, and of those of others on the same resamples."""
        return Drawn(
            statistic(self.value, *(other.value for other in others)),
            statistic(self.drawn, *(other.drawn for other in others)),
        )

    @property
    def interval(self) -> np.ndarray:
        """The 95% interval: low and high along the last axis."""
        return interval_record(self.drawn).T

    @property
    def difference(self) -> Difference:
        """Of a difference, as a result holds it."""
        return difference_record(self.value, self.drawn)


@dataclass(frozen=True)
class Scored:
    """What each text contributes to the sums that a score is made from, under each mask.

    Attributes:
        counts: (..., texts, k).
        of: ``(..., k) -> (...)``, the score of summed counts.
        chance: the score that needs no model.
    """

    counts: np.ndarray
    of: Callable[[np.ndarray], np.ndarray]
    chance: float = 0.0

    @property
    def scores(self) -> np.ndarray:
        """On all texts, (...)."""
        return self.of(self.counts.sum(-2))

    def drawn(self, draws: Resamples) -> Drawn:
        """On resampled texts, the same for all masks."""
        *masks, texts, k = self.counts.shape
        flat = self.counts.reshape(-1, texts, k)
        resampled = stats.bootstrap_scores(self.of, flat, draws.resamples, draws.seed)
        return Drawn(self.scores, resampled.reshape(-1, *masks))


def score_of(raw: Arrays) -> Score:
    """The score that a part of the encoder half was measured in."""
    return SCORES[str(raw.get("metric", "accuracy"))]


def of_answers(correct: np.ndarray, raw: Arrays) -> Scored:
    """Right or wrong answers (..., texts); ``raw`` holds the ``labels`` and names the metric."""
    score, labels = score_of(raw), raw["labels"]
    return Scored(score.counts(correct, labels), score.of, score.chance(labels))


def of_translations(packed: np.ndarray, reference_lengths: np.ndarray) -> Scored:
    """BLEU of packed counts (..., texts, 5)."""
    return Scored(unpack(packed, reference_lengths), corpus_bleu)


def of_losses(nats: np.ndarray, tokens: np.ndarray | int = 1) -> Scored:
    """Loss a token from sums over texts (..., texts), or a text where there is 1 token a text."""
    sums = np.stack([nats, np.broadcast_to(tokens, nats.shape)], -1).astype(float)
    return Scored(sums, lambda sums: sums[..., 0] / sums[..., 1])


def scored(raw: Arrays, way: str = "") -> Scored:
    """The outcomes of a part along its order: (runs, steps, texts, k), the whole model's first.

    Args:
        way: what begins the names of counts where BLEU was taken in another way beside.
    """
    if "correct" in raw:
        return of_answers(raw["correct"], raw)
    what = "loss" if "tokens" in raw else f"{way}counts"
    whole, change = raw[f"{what}_uncut"], raw[f"{what}_change"]
    cuts = whole + change.astype(whole.dtype)
    if what == "loss" or cuts.ndim == 3:  # run after run, without the whole model
        cuts = cuts.reshape(len(raw["names"]), -1, *whole.shape)
        first = np.broadcast_to(whole, (len(cuts), 1, *whole.shape))
        cuts = np.concatenate([first, cuts], axis=1)
    if what == "loss":
        return of_losses(cuts / MILLINAT, raw["tokens"])
    return of_translations(cuts, raw[f"{way}reference_lengths"])


def joined(parts: Sequence[Scored]) -> Scored:
    """The runs of several parts, one after the other."""
    return dataclasses.replace(parts[0], counts=np.concatenate([part.counts for part in parts]))


def mean_curves(curves: Mapping[str, Scored], draws: Resamples) -> dict[str, Drawn]:
    """The mean over runs, (steps,), also on resampled texts and runs, paired between curves."""
    # one kind's heads or another's: the trainings are the same
    together = {name: IMPORTANCE for name in curves if name.endswith(f" {IMPORTANCE}")}
    sums = {name: curve.counts for name, curve in curves.items()}
    of = next(iter(curves.values())).of
    if of is SCORES["accuracy"].of:  # a plain mean; as a ratio the sixth digit would change
        sums, of = {name: counts[..., 0] for name, counts in sums.items()}, None
    drawn = stats.bootstrap_curves(sums, draws.resamples, draws.seed, of, together)
    return {name: Drawn(curve.scores.mean(0), drawn[name]) for name, curve in curves.items()}


# --- the curves of a result -----------------------------------------------------------------------


@dataclass(frozen=True)
class Statistics(Resamples):
    """The losses at which the removable share is given besides.

    ``early`` is the share of the heads up to which orders are compared besides the whole.
    """

    tolerances: tuple[float, ...] = TOLERANCES
    early: float = C8_UP_TO


MAIN = "importance main"
"""Importance on the first training alone, which is all that most other orders are measured on."""


@dataclass(frozen=True)
class Curves:
    """Scores of several orders.

    Attributes:
        runs: order -> (runs, steps).
        means: order -> (steps,).
    """

    shares: np.ndarray
    chance: float
    runs: dict[str, np.ndarray]
    means: dict[str, Drawn]

    def difference(
        self, one: str, other: str, statistic: Callable[[np.ndarray], np.ndarray]
    ) -> Difference:
        """A statistic of one order's mean curve minus that of another's, paired."""
        return (self.means[one].map(statistic) - self.means[other].map(statistic)).difference

    def area(self, scores: np.ndarray, up_to: float = 1.0) -> np.ndarray:
        """Mean score along the curve up to a share removed: the area under it over that width."""
        inside = self.shares <= up_to + 1e-9
        return stats.area_under_curve(self.shares[inside], scores[..., inside])

    def kept(self, scores: np.ndarray) -> np.ndarray:
        """Share of the whole model's score above chance, along (..., steps)."""
        return stats.kept_above_chance(scores, scores[..., :1], self.chance)


def parts_of_orders(parts: Iterable[str]) -> dict[str, list[str]]:
    """Order -> the parts that its runs are in, the first training's before the further ones'.

    A further training joins once all orders that have any have it, those by importance among them:
    only then are the means of their runs of the same trainings. Where a further training was asked
    for by itself, each part stands for itself.
    """
    trainings: dict[str, dict[int | None, str]] = {}
    for part in parts:
        named = parse_part(part)
        trainings.setdefault(named.curve, {})[named.training] = part
    if not all(None in of_order for of_order in trainings.values()):
        return {part: [part] for of_order in trainings.values() for part in of_order.values()}
    further = {order: {*of_order} - {None} for order, of_order in trainings.items()}
    compared = [
        seeds
        for order, seeds in further.items()
        if seeds or parse_part(order, "kind").order == IMPORTANCE
    ]
    shared = sorted(set.intersection(*compared)) if compared else []
    return {
        order: [of_order[None], *(of_order[training] for training in shared if further[order])]
        for order, of_order in trainings.items()
    }


def _by_order(outcomes: Outcomes, way: str = "") -> dict[str, Scored]:
    """Order -> the outcomes of its runs, and of the first training's by importance."""
    curves = {
        order: joined([scored(outcomes[part], way) for part in parts])
        for order, parts in parts_of_orders(outcomes).items()
    }
    of_encoder = "labels" in next(iter(outcomes.values()))
    if IMPORTANCE in outcomes and (of_encoder or len(curves[IMPORTANCE].counts) > 1):
        every = curves[IMPORTANCE]
        curves[MAIN] = dataclasses.replace(every, counts=every.counts[:1])
    return curves


def read_curves(outcomes: Outcomes, statistics: Statistics) -> Curves:
    """The curves in the outcomes of a result's parts."""
    by_order = _by_order(outcomes)
    return Curves(
        next(iter(outcomes.values()))["shares"],
        next(iter(by_order.values())).chance,
        {name: runs.scores for name, runs in by_order.items()},
        mean_curves(by_order, statistics),
    )


def curve_values(outcomes: Outcomes, curves: Curves, statistics: Statistics) -> dict[str, Any]:
    """What a page says of every order by itself.

    Returns:
        ``curves`` (order -> ``mean`` and ``interval`` of the score after each step, and ``runs``),
        ``kept`` (the same of the share kept above chance) and ``prunable`` (see
        :func:`prunable_record`). In a curve of an encoder stand the ``names`` of its runs, its
        ``log_loss``, and its ``accuracy`` beside a score that is not; ``sacrebleu`` is the mean in
        sacrebleu's own way, where the score is BLEU of Moses' tokens.
    """
    of_orders: dict[str, dict[str, Any]] = {
        name: {"mean": mean.value, "runs": curves.runs[name], "interval": mean.interval}
        for name, mean in curves.means.items()
    }
    kept = {name: mean.map(curves.kept) for name, mean in curves.means.items()}
    parts = parts_of_orders(outcomes)
    for name, runs in curves.runs.items():
        raws = [outcomes[part] for part in parts[IMPORTANCE if name == MAIN else name]]
        if "correct" in raws[0]:
            of_orders[name] |= _of_encoder(raws, len(runs))
    if all(f"{BESIDE}counts_uncut" in raw for raw in outcomes.values()):
        for name, runs in _by_order(outcomes, BESIDE).items():
            of_orders[name]["sacrebleu"] = runs.scores.mean(0)
    return {
        "shares": curves.shares,
        "chance": curves.chance,
        "curves": of_orders,
        "kept": {
            name: {"kept": share.value, "interval": share.interval} for name, share in kept.items()
        },
        "prunable": {
            name: prunable_record(
                curves.shares, mean.value, mean.drawn, curves.chance, statistics.tolerances
            )
            for name, mean in curves.means.items()
        },
    }


def _of_encoder(raws: list[Arrays], n_runs: int) -> dict[str, Any]:
    def runs(name: str) -> np.ndarray:
        return np.concatenate([raw[name] for raw in raws])[:n_runs]

    columns = {"names": [str(run) for run in runs("names")], "log_loss": runs("log_loss").mean(0)}
    return columns | ({"accuracy": runs("correct").mean((0, 2))} if "metric" in raws[0] else {})
