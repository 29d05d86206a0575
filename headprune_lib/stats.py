"""Paired tests, intervals, bootstraps and correlations: the same examples before and after a cut.

Changes are cut minus uncut. "lost" counts the examples that only the uncut model gets right,
"gained" those that only the cut model gets right. Every function raises ValueError for empty
input, NaN, or shapes that do not fit together; every draw comes from the ``seed`` it is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike, NDArray
from statsmodels.stats.multitest import multipletests

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """Value, ends of its interval and two-sided p: floats, or arrays of one shape."""

    value: float | Array
    low: float | Array
    high: float | Array
    p: float | Array


def _numbers(name: str, given: ArrayLike, axes: int = 0) -> Array:
    """``given`` as float64; ValueError if it is empty, holds NaN or has fewer than ``axes`` axes."""
    array = np.asarray(given, dtype=np.float64)
    if array.size == 0:
        raise ValueError(f"{name} is empty (shape {array.shape}); give at least one number")
    if array.ndim < axes:
        raise ValueError(f"{name} has shape {array.shape}; expected at least {axes} axes")
    if np.isnan(array).any():
        raise ValueError(f"{name} holds {int(np.isnan(array).sum())} NaN of {array.size} numbers; "
                         "find out where they come from, or leave those entries out")
    return array


def _same(what: str, first: object, second: object) -> None:
    if first != second:
        raise ValueError(f"{what} differ: {first} and {second}; give paired measurements of the "
                         "same examples in the same order")


def _discordants(lost: ArrayLike, gained: ArrayLike) -> tuple[Array, Array]:
    lost, gained = _numbers("lost", lost), _numbers("gained", gained)
    _same("shapes of lost and gained", lost.shape, gained.shape)
    if ((lost < 0) | (gained < 0) | (lost % 1 > 0) | (gained % 1 > 0)).any():
        raise ValueError("lost and gained are counts of examples; expected whole numbers >= 0")
    return lost, gained


def mcnemar_exact(lost: ArrayLike, gained: ArrayLike) -> Array:
    """Two-sided exact McNemar p of each pair of counts; 1 where no example changed.

    Binomial(lost + gained, 1/2), the smaller tail doubled, as ``statsmodels`` ``mcnemar`` with
    ``exact=True``, for arrays of any one shape.
    """
    lost, gained = _discordants(lost, gained)
    tail = scipy.stats.binom.cdf(np.minimum(lost, gained), lost + gained, 0.5)
    return np.minimum(1.0, 2 * tail)


def paired_proportion_interval(lost: ArrayLike, gained: ArrayLike, n: int,
                               confidence: float = 0.95) -> tuple[Array, Array]:
    """Low and high end of Tango's score interval for the accuracy change (gained - lost) / n.

    The changes that the score test does not reject (Tango 1998, Statistics in Medicine 17:891); at
    a change of 0 its score is McNemar's z. Unlike Wald's interval it keeps its coverage with few
    discordants, and has width where there are none. ``n`` counts all examples.
    """
    lost, gained = _discordants(lost, gained)
    if not n >= (lost + gained).max() or n < 1:
        raise ValueError(f"n is {n}, but {(lost + gained).max():.0f} examples changed; "
                         "n counts all examples, changed or not")
    z = scipy.stats.norm.isf((1 - confidence) / 2)
    observed = (gained - lost) / n

    def rejected(change: Array) -> NDArray[np.bool_]:
        b = (2 * n + lost - gained) * change - lost - gained
        root = np.sqrt(np.maximum(b**2 + 8 * n * lost * change * (1 - change), 0))
        loss_rate = (root - b) / (4 * n)  # maximum-likelihood P(lost) given the change
        variance = n * np.maximum(2 * loss_rate + change * (1 - change), 0)
        return (n * (observed - change)) ** 2 > z**2 * variance

    def end(outside: float) -> Array:
        out, inside = np.full_like(observed, outside), observed.copy()
        for _ in range(50):  # bisection, to 2 ** -49
            middle = (out + inside) / 2
            beyond = rejected(middle)
            out, inside = np.where(beyond, middle, out), np.where(beyond, inside, middle)
        return inside

    return end(-1.0), end(1.0)


def smallest_detectable(discordant_share: ArrayLike, n: int, alpha: float,
                        power: float = 0.8) -> Array:
    """Smallest accuracy change, a fraction, that McNemar's test at ``alpha`` finds with ``power``.

    Solves Connor's sample size formula (1987, Biometrics 43:207, after Miettinen 1968)
    ``n d^2 = (z_a sqrt(s) + z_b sqrt(s - d^2))^2`` for d, with s the share of discordants:
    ``d = k sqrt(s)``, ``k = (z_a sqrt(n) + z_b sqrt(n + z_b^2 - z_a^2)) / (n + z_b^2)``. A change
    of d takes a share of at least d, so s is raised to k^2 where it is smaller (then d = s).
    inf where ``n`` is too small to find any. For a family, pass Holm's first step, alpha / tests.
    """
    share = _numbers("discordant_share", discordant_share)
    if ((share < 0) | (share > 1)).any() or n < 1:
        raise ValueError(f"discordant_share {discordant_share}, n {n}: expected shares in [0, 1] "
                         "and at least 1 example")
    z_a, z_b = scipy.stats.norm.isf(alpha / 2), scipy.stats.norm.isf(1 - power)
    k = (z_a * math.sqrt(n) + z_b * math.sqrt(max(n + z_b**2 - z_a**2, 0))) / (n + z_b**2)
    return k * np.sqrt(np.maximum(share, k**2)) if k <= 1 else np.full_like(share, np.inf)


def equivalence(interval_low: ArrayLike, delta: float) -> NDArray[np.bool_]:
    """True where the interval rules out a loss of ``delta`` or more: the head is removable."""
    return _numbers("interval_low", interval_low) > -delta


def holm(p: ArrayLike) -> Array:
    """Holm-adjusted p-values of one family, in the shape of ``p``."""
    p = _numbers("p", p)
    if ((p < 0) | (p > 1)).any():
        raise ValueError(f"p reaches from {p.min()} to {p.max()}; expected p-values in [0, 1]")
    return multipletests(p.ravel(), method="holm")[1].reshape(p.shape)


def paired_t(difference: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Mean of (..., examples) over the last axis, its t interval and two-sided p, shape (...).

    A constant row has an interval of no width, and p = 1 if it is all 0, else 0.
    """
    difference = _numbers("difference", difference, axes=1)
    if difference.shape[-1] < 2:
        raise ValueError(f"difference has shape {difference.shape}; expected >= 2 on the last axis")
    mean = difference.mean(axis=-1)
    low, high, p = np.array(mean), np.array(mean), np.where(mean == 0, 1.0, 0.0)
    varies = np.ptp(difference, axis=-1) > 0
    if varies.any():
        test = scipy.stats.ttest_1samp(difference[varies], 0.0, axis=-1)
        interval = test.confidence_interval(confidence)
        low[varies], high[varies], p[varies] = interval.low, interval.high, test.pvalue
    return Estimate(mean, low[()], high[()], p[()])


def ratio_interval(a: ArrayLike, b: ArrayLike,
                   confidence: float = 0.95) -> tuple[float, float, float]:
    """Geometric mean of a/b over paired repetitions, low and high: t interval of the log ratio."""
    a, b = _numbers("a", a, axes=1), _numbers("b", b, axes=1)
    _same("shapes of a and b", a.shape, b.shape)
    if min(a.min(), b.min()) <= 0:
        raise ValueError(f"a and b reach down to {a.min()} and {b.min()}; expected numbers > 0")
    log = paired_t(np.log(a / b), confidence)
    return math.exp(log.value), math.exp(log.low), math.exp(log.high)


def bootstrap_indices(n: int, resamples: int, seed: int | np.random.Generator) -> NDArray[np.int64]:
    """Indices (resamples, n): ``resamples`` draws of ``n`` of ``n`` examples with replacement."""
    if n < 1 or resamples < 1:
        raise ValueError(f"n is {n}, resamples is {resamples}; expected at least 1 of each")
    return np.random.default_rng(seed).integers(0, n, size=(resamples, n))


def _count_chunks(n: int, resamples: int, seed: int | np.random.Generator,
                  dtype: type = np.float32) -> Iterator[tuple[slice, NDArray]]:
    """How often each example is drawn, (chunk, n), for matrix products of bounded memory."""
    rng, size = np.random.default_rng(seed), max(1, 2**18 // n)
    for start in range(0, max(resamples, 1), size):
        rows = min(size, resamples - start)
        drawn = bootstrap_indices(n, rows, rng) + n * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
        yield slice(start, start + rows), counts.astype(dtype)


def confusion(target: ArrayLike, predicted: ArrayLike) -> Array:
    """Each example's cell, one-hot (..., examples, 4): tp, fp, fn, tn. Classes are 0 and 1."""
    target, predicted = _numbers("target", target, axes=1), _numbers("predicted", predicted, axes=1)
    _same("numbers of examples", target.shape[-1], predicted.shape[-1])
    if not (np.isin(target, (0, 1)).all() and np.isin(predicted, (0, 1)).all()):
        raise ValueError("target and predicted are classes 0 and 1; map other labels to these")
    return np.stack([target * predicted, (1 - target) * predicted,
                     target * (1 - predicted), (1 - target) * (1 - predicted)], axis=-1)


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


def paired_bootstrap(statistic: Callable[[Array], Array], uncut: ArrayLike, cuts: ArrayLike,
                     resamples: int, seed: int, confidence: float = 0.95) -> Estimate:
    """Change of a statistic of summed counts, its percentile interval and p, each (cuts,).

    ``uncut`` (examples, k) and ``cuts`` (cuts, examples, k) hold each example's share of the sums
    that ``statistic`` maps from (..., k) to (...): the cells of :func:`confusion` for
    :func:`matthews` and :func:`f1`, n-gram counts for BLEU. All cuts see the same draws.
    p inverts the percentile interval: twice the smaller tail at 0, one resample added to it.
    """
    uncut, cuts = _numbers("uncut", uncut, axes=2), _numbers("cuts", cuts, axes=3)
    _same("(examples, counts) of uncut and cuts", uncut.shape, cuts.shape[1:])
    models = np.concatenate([uncut[None], cuts])  # (1 + cuts, examples, k)
    m, n, k = models.shape
    # float32 adds whole numbers exactly up to 2^24, at twice the speed.
    whole = bool((models % 1 == 0).all()) and n * np.abs(models).max() < 2**24
    dtype = np.float32 if whole else np.float64
    per_example = models.transpose(1, 0, 2).reshape(n, m * k).astype(dtype)
    change = np.empty((resamples, m - 1))
    for rows, counts in _count_chunks(n, resamples, seed, dtype):
        score = statistic((counts @ per_example).astype(np.float64).reshape(-1, m, k))
        change[rows] = score[:, 1:] - score[:, :1]
    score = statistic(models.sum(axis=1))
    low, high = np.quantile(change, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    tail = 1 + np.minimum((change <= 0).sum(axis=0), (change >= 0).sum(axis=0))
    return Estimate(score[1:] - score[0], low, high, np.minimum(1.0, 2 * tail / (resamples + 1)))


def bootstrap_curves(correct: dict[str, ArrayLike], resamples: int,
                     seed: int) -> dict[str, Array]:
    """Resampled mean curves, name -> (resamples, shares), from name -> (runs, shares, examples).

    Row i of every curve uses the same draw of examples, for all its shares and runs, so that the
    difference of two curves is paired. Where a curve has several runs (seeds), its runs are drawn
    again too, within the curve, and its draws do not depend on which other curves are given.
    """
    curves = {name: _numbers(name, curve, axes=3) for name, curve in correct.items()}
    if not curves:
        raise ValueError("correct has no curve; expected name -> array (runs, shares, examples)")
    n = next(iter(curves.values())).shape[-1]
    for name, curve in curves.items():
        _same(f"numbers of examples ({name} and the first curve)", curve.shape[-1], n)
    flat = {name: np.ascontiguousarray(curve.reshape(-1, n).T, dtype=np.float32)
            for name, curve in curves.items()}
    run_rngs = {name: np.random.default_rng([seed, 1, *name.encode()]) for name in curves}
    means = {name: np.empty((resamples, curve.shape[1])) for name, curve in curves.items()}
    for rows, counts in _count_chunks(n, resamples, seed):
        for name, curve in curves.items():
            runs, shares = curve.shape[:2]
            accuracy = (counts @ flat[name]).reshape(-1, runs, shares) / n
            drawn = bootstrap_indices(runs, len(counts), run_rngs[name])
            means[name][rows] = np.take_along_axis(accuracy, drawn[..., None], axis=1).mean(axis=1)
    return means


def _curve(shares: ArrayLike, scores: ArrayLike) -> tuple[Array, Array]:
    shares, scores = _numbers("shares", shares, axes=1), _numbers("scores", scores, axes=1)
    _same("lengths of shares and scores", len(shares), scores.shape[-1])
    if len(shares) < 2 or (np.diff(shares) <= 0).any():
        raise ValueError(f"shares is {shares.tolist()}; expected at least two, each above the last")
    return shares, scores


def area_under_curve(shares: ArrayLike, scores: ArrayLike) -> Array:
    """Trapezoid area of scores (..., shares) over the width of ``shares``: a mean score, (...)."""
    shares, scores = _curve(shares, scores)
    return np.trapezoid(scores, shares, axis=-1) / (shares[-1] - shares[0])


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


def correlation(x: ArrayLike, y: ArrayLike, method: str = "pearson", resamples: int = 10_000,
                seed: int = 0, confidence: float = 0.95) -> Estimate:
    """Correlation of x and y, both (heads,); percentile interval by bootstrap over heads.

    ``method`` is "pearson" or "spearman". Resamples in which one side is constant do not count.
    """
    x, y = _numbers("x", x, axes=1), _numbers("y", y, axes=1)
    _same("shapes of x and y", x.shape, y.shape)
    tests = {"pearson": scipy.stats.pearsonr, "spearman": scipy.stats.spearmanr}
    if method not in tests or x.ndim != 1 or len(x) < 3 or min(np.ptp(x), np.ptp(y)) == 0:
        raise ValueError(f"method {method!r}, x and y of shape {x.shape}: expected pearson or "
                         "spearman and at least 3 pairs that are not all alike")
    drawn = bootstrap_indices(len(x), resamples, seed)
    sides = x[drawn], y[drawn]
    if method == "spearman":
        sides = tuple(scipy.stats.rankdata(side, axis=-1) for side in sides)
    low, high = np.nanquantile(_row_correlations(*sides),
                               [(1 - confidence) / 2, (1 + confidence) / 2])
    test = tests[method](x, y)
    return Estimate(float(test.statistic), float(low), float(high), float(test.pvalue))


def _row_correlations(x: Array, y: Array) -> Array:
    """Pearson's r of each row of x with the row of y; NaN where a row is constant."""
    varies = (np.ptp(x, axis=-1) > 0) & (np.ptp(y, axis=-1) > 0)
    x, y = (side - side.mean(axis=-1, keepdims=True) for side in (x, y))
    scale = np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))
    return np.divide((x * y).sum(axis=-1), scale, out=np.full_like(scale, np.nan), where=varies)


def split_half_reliability(per_example_effects: ArrayLike, splits: int = 100,
                           seed: int = 0) -> float:
    """Reliability of the mean effects of heads, from effects (heads, examples).

    Each split parts the examples at random in two halves and correlates, over heads, the mean
    effects of both; with r the mean over splits, Spearman-Brown's ``2 r / (1 + r)`` steps it up
    from half the examples to all. A split with a half that shows no difference counts as r = 0.
    """
    effects = _numbers("per_example_effects", per_example_effects, axes=2)
    heads, examples = effects.shape
    if heads < 3 or examples < 2 or splits < 1:
        raise ValueError(f"per_example_effects is {effects.shape} with {splits} splits; expected "
                         "at least 3 heads, 2 examples and 1 split")
    rng, half = np.random.default_rng(seed), examples // 2
    first = rng.permuted(np.tile(np.arange(examples) < half, (splits, 1)), axis=1)
    sums = first @ effects.T  # (splits, heads)
    r = np.nan_to_num(_row_correlations(sums / half, (effects.sum(1) - sums) / (examples - half)))
    return float(2 * r.mean() / (1 + r.mean()))


def correlation_ceiling(rel_x: float, rel_y: float) -> float:
    """Largest correlation of two measures, ``sqrt(rel_x rel_y)``; reliabilities < 0 count as 0."""
    return math.sqrt(max(rel_x, 0.0) * max(rel_y, 0.0))
