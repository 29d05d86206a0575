"""Estimates with 95% intervals: scores on resampled texts, and their records in result files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.measurements.base import Constants
from headprune_lib.replication.metrics import MILLINAT, SCORES, corpus_bleu, unpack
from headprune_lib.replication.order_names import IMPORTANCE
from headprune_lib.replication.store import Arrays

Difference = dict[str, Any]
"""A paired difference with its 95% interval: ``difference``, ``interval``."""
Correlation = dict[str, Any]
"""A correlation over heads: ``r``, ``interval`` (95%) and ``p``; None where it is not defined."""
Prunable = dict[str, Any]
"""The largest share of the heads removable at a tolerated loss: ``share``, ``interval`` (95%)."""


def interval_record(drawn: np.ndarray) -> np.ndarray:
    """The 95% interval of bootstrap draws ``(resamples, ...)``: low and high along the first axis."""
    return np.quantile(drawn, [0.025, 0.975], axis=0)


def correlation_record(x: np.ndarray, y: np.ndarray, method: str, draws: Constants) -> Correlation:
    """A correlation over heads; all None for fewer than 3, or where a side does not vary."""
    if len(x) < 3 or min(np.ptp(x), np.ptp(y)) == 0:
        return dict(_NO_CORRELATION)
    return _correlation(stats.correlation(x, y, method, draws.resamples, draws.seed))


def partial_record(
    x: np.ndarray,
    y: np.ndarray,
    groups: np.ndarray,
    draws: Constants,
    given: Sequence[np.ndarray] = (),
) -> Correlation:
    """Spearman's correlation over heads, with their groups and ``given`` variables held fixed.

    All None where nothing is left to correlate.
    """
    try:
        return _correlation(
            stats.partial_spearman(x, y, [*given], groups, draws.resamples, draws.seed)
        )
    except ValueError:
        return dict(_NO_CORRELATION)


_NO_CORRELATION: Correlation = {"r": None, "interval": [None, None], "p": None}


def _correlation(found: stats.Estimate) -> Correlation:
    return {"r": found.value, "interval": [found.low, found.high], "p": found.p}


def prunable_record(
    shares: np.ndarray, mean: Drawn, chance: float, tolerances: Sequence[float]
) -> dict[str, Prunable]:
    """Largest share removable at each tolerance, with the interval over bootstrap draws.

    Args:
        shares: (steps + 1,) shares removed.
        mean: the mean curve (steps + 1,).
        chance: the score that a model without any head can be expected to have.
    """
    records = {}
    for tolerance in tolerances:
        share = mean.map(lambda curve, t=tolerance: stats.prunable_share(shares, curve, chance, t))
        interval = interval_record(share.drawn)
        records[tolerance_key(tolerance)] = {"share": float(share.value), "interval": interval}
    return records


def tolerance_key(tolerance: float) -> str:
    """The key of a tolerance in a result's values; JSON keys cannot be numbers.

    >>> tolerance_key(0.02)
    '2%'
    """
    return f"{tolerance:.0%}"


# --- scores of texts ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawn:
    """A number or an array of them, (...), and the same on resampled texts, (resamples, ...)."""

    value: Any
    drawn: np.ndarray

    def __sub__(self, other: Drawn) -> Drawn:
        """The paired difference: both are on the same resamples."""
        return Drawn(self.value - other.value, self.drawn - other.drawn)

    def map(self, statistic: Callable[..., np.ndarray], *others: Drawn) -> Drawn:
        """A statistic of these numbers and of others on the same resamples."""
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
        """The record of a difference in a result."""
        return {"difference": self.value, "interval": interval_record(self.drawn)}


@dataclass(frozen=True)
class Scored:
    """Each text's contribution, under each mask, to the sums that a score is computed from.

    Attributes:
        counts: (..., texts, k).
        of: ``(..., k) -> (...)``, the score of summed counts.
        chance: the score reached without a model.
    """

    counts: np.ndarray
    of: Callable[[np.ndarray], np.ndarray]
    chance: float = 0.0

    @property
    def scores(self) -> np.ndarray:
        """The scores on all texts, (...)."""
        return self.of(self.counts.sum(-2))

    def drawn(self, draws: Constants) -> Drawn:
        """The scores, also on resampled texts, the same resamples for all masks."""
        *masks, texts, k = self.counts.shape
        flat = self.counts.reshape(-1, texts, k)
        resampled = stats.bootstrap_scores(self.of, flat, draws.resamples, draws.seed)
        return Drawn(self.scores, resampled.reshape(-1, *masks))


def of_answers(correct: np.ndarray, raw: Arrays) -> Scored:
    """The score of right or wrong answers (..., texts); ``raw`` has the ``labels`` and metric."""
    score, labels = SCORES[str(raw.get("metric", "accuracy"))], raw["labels"]
    return Scored(score.counts(correct, labels), score.of, score.chance(labels))


def of_translations(packed: np.ndarray, reference_lengths: np.ndarray) -> Scored:
    """BLEU of packed counts (..., texts, 5)."""
    return Scored(unpack(packed, reference_lengths), corpus_bleu)


def of_losses(nats: np.ndarray, tokens: np.ndarray | int = 1) -> Scored:
    """Loss per token, from each text's total loss (..., texts); per text if ``tokens`` is 1."""
    sums = np.stack([nats, np.broadcast_to(tokens, nats.shape)], -1).astype(float)
    return Scored(sums, lambda sums: sums[..., 0] / sums[..., 1])


def scored(raw: Arrays, way: str = "") -> Scored:
    """The outcomes of a part along its order: (runs, steps, texts, k), the whole model's first.

    Args:
        way: prefix of the names of counts from which BLEU was also computed in another way.
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


def mean_curves(curves: Mapping[str, Scored], draws: Constants) -> dict[str, Drawn]:
    """The mean over runs, (steps,), also on resampled texts and runs, paired between curves."""
    # whichever kind's heads are removed, the trainings are the same
    together = {name: IMPORTANCE for name in curves if name.endswith(f" {IMPORTANCE}")}
    sums = {name: curve.counts for name, curve in curves.items()}
    of = next(iter(curves.values())).of
    if of is SCORES["accuracy"].of:  # a plain mean; as a ratio the sixth digit would change
        sums, of = {name: counts[..., 0] for name, counts in sums.items()}, None
    drawn = stats.bootstrap_curves(sums, draws.resamples, draws.seed, of, together)
    return {name: Drawn(curve.scores.mean(0), drawn[name]) for name, curve in curves.items()}
