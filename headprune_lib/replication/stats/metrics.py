"""A task's score as a function of summed counts, so that a bootstrap is one matrix product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.data import Metric


@dataclass(frozen=True)
class Score:
    """How right and wrong answers become a score.

    Attributes:
        unit: of a difference of two scores.
        counts: ``(correct (..., n), labels (n,)) -> (..., n, k)``, each example's part of the sums.
        of: ``(..., k) -> (...)``, the score of summed counts.
    """

    unit: str
    counts: Callable[[np.ndarray, np.ndarray], np.ndarray]
    of: Callable[[np.ndarray], np.ndarray]

    def __call__(self, correct: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The score of each row of ``correct`` (..., n)."""
        return self.of(self.counts(correct, labels).sum(-2))

    def chance(self, labels: np.ndarray) -> float:
        """The best score that one and the same answer to every example reaches."""
        return max(float(self(labels == answer, labels)) for answer in np.unique(labels))


def _answered(correct: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.stack([correct, np.ones_like(correct)], -1)


def _cells(correct: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Cells of the confusion matrix; of two classes, a wrong answer is the other one."""
    target = np.broadcast_to(labels, correct.shape)
    return stats.confusion(target, np.where(correct, target, 1 - target))


SCORES: dict[Metric, Score] = {
    "accuracy": Score("share of examples", _answered, lambda sums: sums[..., 0] / sums[..., 1]),
    "matthews": Score("Matthews correlation", _cells, stats.matthews),
    "f1": Score("F1 of class 1", _cells, stats.f1),
}
