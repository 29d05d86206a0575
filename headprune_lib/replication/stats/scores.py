"""Scores of a test set from sums of each example's counts, and of a pruning curve."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from headprune_lib.replication.stats.checks import Array, numbers, same


def confusion(target: ArrayLike, predicted: ArrayLike) -> Array:
    """Each example's cell, one-hot (..., examples, 4): tp, fp, fn, tn. Classes are 0 and 1."""
    target, predicted = numbers("target", target, axes=1), numbers("predicted", predicted, axes=1)
    same("numbers of examples", target.shape[-1], predicted.shape[-1])
    if not (np.isin(target, (0, 1)).all() and np.isin(predicted, (0, 1)).all()):
        raise ValueError("target and predicted are classes 0 and 1; map other labels to these")
    return np.stack(
        [
            target * predicted,
            (1 - target) * predicted,
            target * (1 - predicted),
            (1 - target) * (1 - predicted),
        ],
        axis=-1,
    )


def matthews(cells: Array) -> Array:
    """Matthews correlation of counts (..., 4): tp, fp, fn, tn; 0 where it is undefined."""
    tp, fp, fn, tn = np.moveaxis(np.asarray(cells, dtype=np.float64), -1, 0)
    scale = np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    return np.divide(tp * tn - fp * fn, scale, out=np.zeros_like(scale), where=scale > 0)


def f1(cells: Array) -> Array:
    """F1 of class 1 of counts (..., 4): tp, fp, fn, tn; 0 where it is undefined."""
    tp, fp, fn, _ = np.moveaxis(np.asarray(cells, dtype=np.float64), -1, 0)
    total = 2 * tp + fp + fn
    return np.divide(2 * tp, total, out=np.zeros_like(total), where=total > 0)


def gini(values: ArrayLike) -> Array:
    """Gini coefficient of each row of ``values`` (..., n), none below 0: 0 if all are equal.

    ``sum_ij |x_i - x_j| / (2 n sum x)``, by the sorted values; a row of zeros gets 0.
    """
    values = np.sort(numbers("values", values, axes=1), axis=-1)
    if values.min() < 0:
        raise ValueError(f"values reach down to {values.min()}; expected none below 0")
    n, total = values.shape[-1], values.sum(-1)
    weighted = (values * (2 * np.arange(1, n + 1) - n - 1)).sum(-1)
    return np.divide(weighted, n * total, out=np.zeros_like(total), where=total > 0)


def _curve(shares: ArrayLike, scores: ArrayLike) -> tuple[Array, Array]:
    shares, scores = numbers("shares", shares, axes=1), numbers("scores", scores, axes=1)
    same("lengths of shares and scores", len(shares), scores.shape[-1])
    if len(shares) < 2 or (np.diff(shares) <= 0).any():
        raise ValueError(f"shares is {shares.tolist()}; expected at least two, each above the last")
    return shares, scores


def area_under_curve(shares: ArrayLike, scores: ArrayLike) -> Array:
    """Trapezoid area of scores (..., shares) over the width of ``shares``: a mean score, (...)."""
    shares, scores = _curve(shares, scores)
    return np.trapezoid(scores, shares, axis=-1) / (shares[-1] - shares[0])


def kept_above_chance(score: ArrayLike, whole: ArrayLike, chance: float = 0.0) -> Array:
    """Share of the whole model's score above chance that is kept; shapes broadcast.

    A model that is at chance or below has nothing to keep, and keeps 0, its own score included. Of
    a loss, give both losses and that of chance with a minus.
    """
    above = np.asarray(whole, float) - chance
    kept = np.asarray(score, float) - chance
    above, kept = np.broadcast_arrays(above, kept)
    return np.divide(kept, above, out=np.zeros(above.shape), where=above > 0)


def prunable_share(shares: ArrayLike, scores: ArrayLike, chance: float, tolerance: float) -> Array:
    """Largest share up to which no loss exceeds ``tolerance`` of (unpruned - chance), shape (...).

    ``scores`` is (..., shares), its first entry the unpruned model's (``shares[0]`` must be 0).
    A model that is at chance or below has nothing to lose, and gets 0.
    """
    shares, scores = _curve(shares, scores)
    if shares[0] != 0:
        raise ValueError(f"shares starts at {shares[0]}; expected 0, the unpruned model")
    above_chance = scores[..., :1] - chance
    # Losses equal to the bound count as within it, also after rounding of the difference.
    within = scores[..., :1] - scores <= tolerance * above_chance + 1e-12
    kept = np.logical_and.accumulate(within & (above_chance > 0), axis=-1).sum(axis=-1)
    return shares[np.maximum(kept - 1, 0)]
