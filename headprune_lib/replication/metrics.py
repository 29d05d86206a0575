"""Scores as functions of counts summed over examples, so that a bootstrap is one matrix product.

BLEU is computed from each sentence's n-gram counts; accuracy, Matthews correlation and F1 from each
answer. The module also defines how losses are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headprune_lib.replication.data import Metric
from headprune_lib.replication.lazy import sacrebleu

# BLEU: columns of a sentence's counts are matches and totals of each order, and both lengths

ORDERS = 4


@lru_cache(maxsize=2)
def _metric(tokenize: str) -> sacrebleu.metrics.BLEU:
    # counts do not depend on effective_order, which silences a warning, as force does another
    return sacrebleu.metrics.BLEU(effective_order=True, tokenize=tokenize, force=True)


def signature() -> str:
    """sacrebleu's signature of this way of computing BLEU."""
    metric = sacrebleu.metrics.BLEU()
    metric.corpus_score(["a"], [["a"]])
    return str(metric.get_signature())


@lru_cache(maxsize=1 << 17)
def _counts(hypothesis: str, reference: str, tokenize: str) -> tuple[int, ...]:
    score = _metric(tokenize).sentence_score(hypothesis, [reference])
    return (*score.counts, *score.totals, score.sys_len, score.ref_len)


def sentence_counts(
    hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a"
) -> NDArray[np.int16]:
    """sacrebleu's counts of each sentence, (sentences, 10).

    Matches of orders 1 to 4, totals of orders 1 to 4, hypothesis length, reference length.

    Args:
        tokenize: sacrebleu's name of a tokenizer; ``"none"`` for text that is tokenised already.

    Raises:
        ValueError: the numbers of hypotheses and references differ.
    """
    pairs = zip(hypotheses, references, strict=True)
    return np.array([_counts(*pair, tokenize) for pair in pairs], np.int16)


def pack(counts: NDArray) -> NDArray[np.int16]:
    """Reduce (..., 10) counts to the five that vary between translations: matches and length."""
    return np.concatenate([counts[..., :ORDERS], counts[..., [-2]]], axis=-1).astype(np.int16)


def unpack(packed: NDArray, reference_lengths: NDArray) -> NDArray[np.int16]:
    """The inverse of :func:`pack`: (..., n, 5) and reference lengths (n,) to (..., n, 10)."""
    length = packed[..., [-1]]
    totals = np.maximum(length - np.arange(ORDERS), 0)
    references = np.broadcast_to(reference_lengths[:, None], length.shape)
    return np.concatenate([packed[..., :ORDERS], totals, length, references], axis=-1).astype(
        np.int16
    )


def corpus_bleu(sums: ArrayLike) -> NDArray[np.float64]:
    """BLEU, 0 to 100, of counts summed over sentences: (..., 10) to (...).

    Equal to sacrebleu's ``corpus_bleu`` with its defaults: exponential smoothing where an order
    has no match, 0 where an order has no n-gram at all or nothing matches.
    """
    sums = np.asarray(sums, dtype=np.float64)
    matches, totals = sums[..., :ORDERS], sums[..., ORDERS : 2 * ORDERS]
    missing = (matches == 0) & (totals > 0)
    smoothing = 2.0 ** -np.cumsum(missing, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(missing, smoothing / totals, matches / totals)
        log_precision = np.log(precision).mean(axis=-1)
        brevity = np.minimum(0.0, 1 - sums[..., -1] / sums[..., -2])
        score = 100 * np.exp(brevity + log_precision)
    nothing = (matches[..., 0] == 0) | (totals == 0).any(axis=-1)
    return np.where(nothing, 0.0, score)


# Classification


def confusion(target: np.ndarray, predicted: np.ndarray) -> NDArray[np.float64]:
    """Each example's cell, one-hot (..., examples, 4): tp, fp, fn, tn. Classes are 0 and 1."""
    target, predicted = (np.asarray(side, np.float64) for side in (target, predicted))
    return np.stack(
        [
            target * predicted,
            (1 - target) * predicted,
            target * (1 - predicted),
            (1 - target) * (1 - predicted),
        ],
        axis=-1,
    )


def matthews(cells: np.ndarray) -> NDArray[np.float64]:
    """Matthews correlation of counts (..., 4): tp, fp, fn, tn; 0 where it is undefined."""
    tp, fp, fn, tn = np.moveaxis(np.asarray(cells, dtype=np.float64), -1, 0)
    scale = np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    return np.divide(tp * tn - fp * fn, scale, out=np.zeros_like(scale), where=scale > 0)


def f1(cells: np.ndarray) -> NDArray[np.float64]:
    """F1 of class 1 of counts (..., 4): tp, fp, fn, tn; 0 where it is undefined."""
    tp, fp, fn, _ = np.moveaxis(np.asarray(cells, dtype=np.float64), -1, 0)
    total = 2 * tp + fp + fn
    return np.divide(2 * tp, total, out=np.zeros_like(total), where=total > 0)


@dataclass(frozen=True)
class Score:
    """A score computed from right and wrong answers.

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
        """The best score reached by the same answer to every example."""
        return max(float(self(labels == answer, labels)) for answer in np.unique(labels))


def _answered(correct: np.ndarray, _labels: np.ndarray) -> np.ndarray:
    return np.stack([correct, np.ones_like(correct)], -1)


def _cells(correct: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Cells of the confusion matrix; with two classes, a wrong answer is the other one."""
    target = np.broadcast_to(labels, correct.shape)
    return confusion(target, np.where(correct, target, 1 - target))


SCORES: dict[Metric, Score] = {
    "accuracy": Score("share of examples", _answered, lambda sums: sums[..., 0] / sums[..., 1]),
    "matthews": Score("Matthews correlation", _cells, matthews),
    "f1": Score("F1 of class 1", _cells, f1),
}


# Losses

MILLINAT = 1000
"""Losses are stored in whole thousandths of a nat."""


def coarse(values: np.ndarray) -> np.ndarray:
    """Round to five binary digits, which take half the space in a file.

    Each value is off by at most one part in 32, a mean over a thousand by one in ten thousand.
    """
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(32 * mantissa) / 32, exponent)


def millinats(nats: np.ndarray) -> np.ndarray:
    """Losses as whole thousandths of a nat in 16 bits, clipped to 32.767 nats."""
    limit = np.iinfo(np.int16).max
    return np.rint(nats * MILLINAT).clip(-limit, limit).astype(np.int16)
