"""Paired tests, intervals, bootstraps, correlations and power, on the same examples cut and uncut.

Changes are cut minus uncut. For accuracy, "lost" counts the examples that only the uncut model gets
right, "gained" those that only the cut model gets right. A ``statistic`` maps (..., k) counts,
summed over examples, to (...) scores (see :mod:`headprune_lib.replication.metrics`). A system is
what each example adds to these sums, (examples, k); of several the first is the uncut model's. All
draws come from the given ``seed``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]
Seed = int | np.random.Generator

CONFIDENCE = 0.95
"""Confidence level of every interval."""
_ENDS = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]


@dataclass(frozen=True)
class Estimate:
    """Value, ends of its interval and two-sided p: floats, or arrays of one shape."""

    value: float | Array
    low: float | Array
    high: float | Array
    p: float | Array


# Resampling of examples


def bootstrap_indices(n: int, resamples: int, seed: Seed) -> NDArray[np.int64]:
    """Indices (resamples, n): ``resamples`` draws of ``n`` of ``n`` examples with replacement."""
    return np.random.default_rng(seed).integers(0, n, size=(resamples, n))


def count_chunks(
    n: int, resamples: int, seed: Seed, dtype: type = np.float32
) -> Iterator[tuple[slice, NDArray]]:
    """Yield how often each example is drawn, (chunk, n), for matrix products of bounded memory."""
    rng, size = np.random.default_rng(seed), max(1, 2**18 // n)
    for start in range(0, max(resamples, 1), size):
        rows = min(size, resamples - start)
        drawn = bootstrap_indices(n, rows, rng) + n * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
        yield slice(start, start + rows), counts.astype(dtype)


def bootstrap_scores(statistic: Statistic, systems: ArrayLike, resamples: int, seed: int) -> Array:
    """Scores of every system on resampled test sets, (resamples, systems); all see the same draws.

    Args:
        systems: (systems, examples, k).
    """
    systems = np.asarray(systems, np.float64)
    m, n, k = systems.shape
    # float32 adds whole numbers exactly up to 2^24, at twice the speed.
    whole = bool((systems % 1 == 0).all()) and n * np.abs(systems).max() < 2**24
    dtype = np.float32 if whole else np.float64
    per_example = systems.transpose(1, 0, 2).reshape(n, m * k).astype(dtype)
    scores = np.empty((resamples, m))
    for rows, counts in count_chunks(n, resamples, seed, dtype):
        sums = (counts @ per_example).astype(np.float64)
        scores[rows] = statistic(sums.reshape(-1, m, k))
    return scores


def paired_bootstrap(statistic: Statistic, systems: Array, resamples: int, seed: int) -> Estimate:
    """Change of a statistic, its percentile interval and p, each (cuts,).

    p inverts the percentile interval: twice the smaller tail at 0, with one resample added to it.

    Args:
        systems: (1 + cuts, examples, k).
    """
    drawn = bootstrap_scores(statistic, systems, resamples, seed)
    change = drawn[:, 1:] - drawn[:, :1]
    score = statistic(systems.sum(axis=1))
    low, high = np.quantile(change, _ENDS, axis=0)
    tail = 1 + np.minimum((change <= 0).sum(axis=0), (change >= 0).sum(axis=0))
    return Estimate(score[1:] - score[0], low, high, np.minimum(1.0, 2 * tail / (resamples + 1)))


def share_of_wins(statistic: Statistic, systems: Array, resamples: int, seed: int) -> Array:
    """p of each cut as compare-mt computed it until July 2019 (its commit 1febe28), (cuts,).

    Each draw takes half of the examples without replacement; p is one minus the share of the draws
    that the better system wins. It is one-sided, and a tie is no win.
    """
    change = _changes(statistic, systems, _halves(systems.shape[1], resamples, seed))
    return 1 - np.maximum((change > 0).mean(0), (change < 0).mean(0))


def bootstrap_curves(
    curves: Mapping[str, Array],
    resamples: int,
    seed: int,
    statistic: Statistic | None = None,
    together: Mapping[str, str] | None = None,
    trainings: Mapping[str, ArrayLike] | None = None,
) -> dict[str, Array]:
    """Resampled mean curves, name -> (resamples, shares), from name -> (runs, shares, examples).

    With a ``statistic`` the curves are (runs, shares, examples, k); without, a score is the mean
    over the examples.

    Row i of every curve uses the same draw of examples, for all its shares and runs, so that the
    difference of two curves is paired. If a curve has several runs (seeds), its runs are resampled
    too, within the curve and independently of which other curves are given. Curves of the same runs
    share these draws if ``together`` gives them the same name. ``trainings`` names the training of
    each run, (runs,): trainings are then resampled, and the mean over the runs of one counts.
    """
    n = next(iter(curves.values())).shape[2]
    flat = {
        name: np.ascontiguousarray(np.moveaxis(curve, 2, 0).reshape(n, -1), dtype=np.float32)
        for name, curve in curves.items()
    }
    keys = {name: name for name in curves} | dict(together or {})
    run_rngs = {name: np.random.default_rng([seed, 1, *key.encode()]) for name, key in keys.items()}
    means = {name: np.empty((resamples, curve.shape[1])) for name, curve in curves.items()}
    for rows, counts in count_chunks(n, resamples, seed):
        for name, curve in curves.items():
            runs, shares = curve.shape[:2]
            sums = (counts @ flat[name]).reshape(len(counts), runs, shares, *curve.shape[3:])
            scores = sums / n if statistic is None else statistic(sums.astype(np.float64))
            if trainings is not None:
                of_run = np.asarray(trainings[name])
                means_of = [scores[:, of_run == training].mean(1) for training in np.unique(of_run)]
                scores = np.stack(means_of, axis=1)
            drawn = bootstrap_indices(scores.shape[1], len(counts), run_rngs[name])
            means[name][rows] = np.take_along_axis(scores, drawn[..., None], axis=1).mean(axis=1)
    return means


def _halves(examples: int, draws: int, seed: int) -> Array:
    """Random halves, (draws, examples): 1 for the examples in each draw."""
    half = np.tile(np.arange(examples) < examples // 2, (draws, 1))
    return np.random.default_rng(seed).permuted(half, axis=1).astype(np.float64)


def _changes(statistic: Statistic, systems: Array, members: Array) -> Array:
    """Changes (draws, cuts) of a statistic on the examples in each draw."""
    flat = systems.transpose(1, 0, 2).reshape(systems.shape[1], -1).astype(np.float64)
    scores = statistic((members @ flat).reshape(len(members), *systems.shape[::2]))
    return scores[:, 1:] - scores[:, :1]


# Tests and intervals of a cut


def mcnemar_exact(lost: ArrayLike, gained: ArrayLike) -> Array:
    """Two-sided exact McNemar p of each pair of counts; 1 where no example changed.

    Like ``mcnemar`` of ``statsmodels`` with ``exact=True``, for arrays of the same shape.
    """
    lost, gained = np.asarray(lost, np.float64), np.asarray(gained, np.float64)
    tail = scipy.stats.binom.cdf(np.minimum(lost, gained), lost + gained, 0.5)
    return np.minimum(1.0, 2 * tail)


def paired_proportion_interval(lost: ArrayLike, gained: ArrayLike, n: int) -> tuple[Array, Array]:
    """Low and high end of Tango's score interval for the accuracy change (gained - lost) / n.

    It contains the changes that the score test does not reject (Tango 1998, Statistics in Medicine
    17:891); at a change of 0 its score is McNemar's z. Unlike Wald's interval it keeps its coverage
    with few discordant examples, and has width with none. ``n`` counts all examples.
    """
    lost, gained = np.asarray(lost, np.float64), np.asarray(gained, np.float64)
    z = scipy.stats.norm.isf(_ENDS[0])
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


def smallest_detectable(
    discordant_share: ArrayLike, n: int, alpha: float, power: float = 0.8
) -> Array:
    """Smallest accuracy change, a fraction, that McNemar's test at ``alpha`` finds with ``power``.

    Solves Connor's sample size formula (1987, Biometrics 43:207, after Miettinen 1968)
    ``n d^2 = (z_a sqrt(s) + z_b sqrt(s - d^2))^2`` for d, with s the discordant share:
    ``d = k sqrt(s)``, ``k = (z_a sqrt(n) + z_b sqrt(n + z_b^2 - z_a^2)) / (n + z_b^2)``. A change
    of d takes a share of at least d, so s is raised to k^2 where it is smaller (then d = s).
    inf if ``n`` is too small to detect any. For a family, pass Holm's first step, alpha / tests.
    """
    share = np.asarray(discordant_share, np.float64)
    z_a, z_b = scipy.stats.norm.isf(alpha / 2), scipy.stats.norm.isf(1 - power)
    k = (z_a * math.sqrt(n) + z_b * math.sqrt(max(n + z_b**2 - z_a**2, 0))) / (n + z_b**2)
    return k * np.sqrt(np.maximum(share, k**2)) if k <= 1 else np.full_like(share, np.inf)


def equivalence(interval_low: ArrayLike, delta: float) -> NDArray[np.bool_]:
    """True where the interval rules out a loss of ``delta`` or more: the head is removable."""
    return np.asarray(interval_low) > -delta


def holm(p: ArrayLike) -> Array:
    """Holm-adjusted p-values of one family, in the shape of ``p``."""
    p = np.asarray(p, np.float64)
    order = p.argsort(axis=None)
    adjusted = np.empty(p.size)
    adjusted[order] = np.maximum.accumulate(p.ravel()[order] * np.arange(p.size, 0, -1))
    return np.minimum(adjusted, 1.0).reshape(p.shape)


def paired_t(difference: ArrayLike) -> Estimate:
    """Mean of (..., examples) over the last axis, its t interval and two-sided p, shape (...).

    A constant row has an interval of width 0, and p = 1 if it is all 0, else 0.
    """
    difference = np.asarray(difference, np.float64)
    mean = difference.mean(axis=-1)
    low, high, p = np.array(mean), np.array(mean), np.where(mean == 0, 1.0, 0.0)
    varies = np.ptp(difference, axis=-1) > 0
    if varies.any():
        test = scipy.stats.ttest_1samp(difference[varies], 0.0, axis=-1)
        interval = test.confidence_interval(CONFIDENCE)
        low[varies], high[varies], p[varies] = interval.low, interval.high, test.pvalue
    return Estimate(mean, low[()], high[()], p[()])


def unpaired_t(uncut: ArrayLike, cut: ArrayLike) -> Array:
    """Two-sided p of Student's t-test of (..., examples) rows of 0 and 1, as if they were unpaired.

    The paper's test of accuracy: it does not mark -0.96 points on 9,815 pairs at p < 0.01, which a
    paired test would find significant unless 13.6% of the answers changed. 1 without variation.
    """
    examples = np.shape(uncut)[-1]
    rates = [np.asarray(answers, np.float64).mean(-1) for answers in (uncut, cut)]
    variance = sum(rate * (1 - rate) for rate in rates) / (examples - 1)
    change = np.asarray(rates[1] - rates[0])
    t = np.divide(change, np.sqrt(variance), out=np.zeros_like(change), where=variance > 0)
    return 2 * scipy.stats.t.sf(np.abs(t), 2 * examples - 2)


def ratio_interval(a: Array, b: Array) -> tuple[float, float, float]:
    """Geometric mean of a/b over paired repetitions, low and high: t interval of the log ratio."""
    log = paired_t(np.log(np.asarray(a, np.float64) / b))
    return math.exp(log.value), math.exp(log.low), math.exp(log.high)


# Correlation of two noisy effects of heads, and the ceiling that their noise sets


def correlation(
    x: ArrayLike, y: ArrayLike, method: str = "pearson", resamples: int = 10_000, seed: int = 0
) -> Estimate:
    """Correlation of x and y, both (heads,); percentile interval by bootstrap over heads.

    ``method`` is "pearson" or "spearman". Resamples in which one side is constant do not count.
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    drawn = bootstrap_indices(len(x), resamples, seed)
    sides = x[drawn], y[drawn]
    if method == "spearman":
        sides = tuple(scipy.stats.rankdata(side, axis=-1) for side in sides)
    low, high = np.nanquantile(_row_correlations(*sides), _ENDS)
    tests = {"pearson": scipy.stats.pearsonr, "spearman": scipy.stats.spearmanr}
    test = tests[method](x, y)
    return Estimate(float(test.statistic), float(low), float(high), float(test.pvalue))


def spearman_without_one(x: Array, y: Array) -> tuple[float, float]:
    """Least and largest Spearman correlation of x and y, both (heads,), with one head left out.

    A side without variation correlates 0.
    """
    others = ~np.eye(len(x), dtype=bool)
    sides = (np.broadcast_to(side, others.shape)[others].reshape(len(x), -1) for side in (x, y))
    without = row_spearman(*sides)
    return float(without.min()), float(without.max())


def partial_spearman(
    x: Array, y: Array, given: ArrayLike, groups: Array, resamples: int = 10_000, seed: int = 0
) -> Estimate:
    """Spearman correlation of x and y, both (heads,), with others held fixed.

    Ranks of x, y and each row of ``given`` are taken over all heads. The least-squares fit by the
    rows' ranks and each group's mean is subtracted from the ranks of x and y, and the residuals are
    correlated. The percentile interval is by bootstrap over heads, with ranks taken anew; p is by
    Student's t with the remaining degrees of freedom.

    Args:
        given: (rows, heads), may have no row.
        groups: (heads,) whole numbers, such as layers; all equal for none.

    Raises:
        ValueError: nothing is left of x or y.
    """
    given = np.asarray(given, dtype=np.float64).reshape(-1, len(x))
    members = (groups[None] == np.unique(groups)[:, None]).astype(np.float64)  # (groups, heads)
    rest = len(x) - len(given) - len(members) - 1
    r = float(_partial(x[None], y[None], given[:, None], members[:, None])[0])
    if rest < 1 or math.isnan(r):
        raise ValueError(
            f"{len(x)} heads in {len(members)} groups and {len(given)} given rows leave nothing of x "
            "or y to correlate. Give more heads, and rows that do not determine x or y"
        )
    drawn = bootstrap_indices(len(x), resamples, seed)
    low, high = np.nanquantile(
        _partial(x[drawn], y[drawn], given[:, drawn], members[:, drawn]), _ENDS
    )
    t = r * math.sqrt(rest / float(max(1 - r * r, np.finfo(float).tiny)))
    return Estimate(r, float(low), float(high), float(2 * scipy.stats.t.sf(abs(t), rest)))


def _partial(x: Array, y: Array, given: Array, members: Array) -> Array:
    """Correlations (draws,) of x, y (draws, heads), given (rows, draws, heads) and (groups, …)."""
    ranked = [scipy.stats.rankdata(side, axis=-1) for side in (x, y, *given)]
    # the groups' columns add up to ones, so that no constant is needed
    columns = np.stack([*members, *ranked[2:]], axis=-1)  # (draws, heads, columns)
    inverse = np.linalg.pinv(columns)
    left = []
    for side in ranked[:2]:
        fitted = (columns @ (inverse @ side[..., None]))[..., 0]
        rest = side - fitted
        # a fully determined side leaves rounding errors, which would correlate with anything
        nothing = np.abs(rest).max(-1, keepdims=True) < 1e-9 * side.shape[-1]
        left.append(np.where(nothing, 0, rest))
    return _row_correlations(*left)


def row_spearman(x: Array, y: Array) -> Array:
    """Spearman's correlation of each row of x with the row of y; 0 where a row is constant."""
    ranks = (scipy.stats.rankdata(side, axis=-1) for side in (x, y))
    return np.nan_to_num(_row_correlations(*ranks))


def _row_correlations(x: Array, y: Array) -> Array:
    """Pearson's r of each row of x with the row of y; NaN where a row is constant."""
    varies = (np.ptp(x, axis=-1) > 0) & (np.ptp(y, axis=-1) > 0)
    x, y = (side - side.mean(axis=-1, keepdims=True) for side in (x, y))
    scale = np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))
    return np.divide((x * y).sum(axis=-1), scale, out=np.full_like(scale, np.nan), where=varies)


def split_half_reliability(effects: Array, splits: int = 100, seed: int = 0) -> float:
    """Reliability of the mean effects of heads, from effects (heads, examples).

    Each split divides the examples at random into two halves and correlates, over heads, the mean
    effects of both; with r the mean over splits, Spearman-Brown's ``2 r / (1 + r)`` steps it up
    from half the examples to all. A split with a half that shows no difference counts as r = 0.
    """
    effects = np.asarray(effects, np.float64)
    examples = effects.shape[1]
    half = examples // 2
    sums = _halves(examples, splits, seed) @ effects.T  # (splits, heads)
    return _stepped_up(sums / half, (effects.sum(1) - sums) / (examples - half))


def split_half_reliability_of(
    statistic: Statistic, systems: Array, splits: int = 100, seed: int = 0
) -> float:
    """Like :func:`split_half_reliability`, for effects that are not means over examples.

    The effect of a head on a half is the statistic of that half's sums, cut minus uncut.
    """
    first = _halves(systems.shape[1], splits, seed)
    return _stepped_up(*(_changes(statistic, systems, half) for half in (first, 1 - first)))


def _stepped_up(first: Array, second: Array) -> float:
    """Spearman-Brown's reliability from the effects on both halves, each (splits, heads)."""
    r = np.nan_to_num(_row_correlations(first, second)).mean()
    return float(2 * r / (1 + r))


def correlation_ceiling(rel_x: float, rel_y: float) -> float:
    """Largest correlation of two measures, ``sqrt(rel_x rel_y)``; reliabilities < 0 count as 0."""
    return math.sqrt(max(rel_x, 0.0) * max(rel_y, 0.0))


# What a measurement could have decided: an estimate is taken as normal around the true value, with
# the standard error that its 95% interval implies

Z95, _Z80 = 1.9599639845400545, 0.8416212335729142
"""``scipy.stats.norm.isf`` of .025 and .2, which takes seconds to import."""


def standard_error(interval: Sequence[float]) -> float:
    """Standard error of an estimate, from its 95% interval."""
    low, high = interval
    return (high - low) / (2 * Z95)


def power_above(true: float, bound: float, error: float, freedom: float = np.inf) -> float:
    """Probability that the lower end of the 95% interval of an estimate is above ``bound``.

    Args:
        true: the true value of what is estimated.
        error: the standard error; 0 means certainty.
        freedom: degrees of freedom of the t interval; infinite for a normal one.

    >>> round(power_above(1.0, 0.95, 0.05 / 2.8), 2)
    0.8
    """
    if error <= 0:
        return float(true > bound)
    distance = (true - bound) / error
    if not np.isfinite(freedom):
        return float(scipy.stats.norm.cdf(distance - Z95))
    return float(scipy.stats.nct.sf(scipy.stats.t.isf(0.025, freedom), freedom, distance))


def detectable(error: float) -> float:
    """Smallest distance from a bound that the 95% interval shows with probability 0.8."""
    return (Z95 + _Z80) * error


def all_of(powers: Sequence[float]) -> float:
    """Lower bound on the probability that all events happen, however they depend on each other."""
    return max(0.0, 1.0 - sum(1.0 - power for power in powers))


def share_above(change: Array, low: Array, drawn: Array, bound: float) -> tuple[float, Array]:
    """Share of the changes whose interval is above a bound, and its percentile interval.

    On resampled examples every interval moves with its change and keeps its width.

    Args:
        change, low: (cuts,) changes and the lower ends of their intervals.
        drawn: (resamples, cuts) changes on resampled examples.
    """
    moved = low + (drawn - change)
    return float((low > bound).mean()), np.quantile((moved > bound).mean(1), [0.025, 0.975])


def power_of_share(
    change: Array,
    low: Array,
    drawn: Array,
    *,
    bound: float,
    spared: int,
    least: float,
    least_low: float,
    worlds: int = 400,
    seed: int = 0,
) -> float:
    """Probability that enough cuts are found above a bound, if ``spared`` of them cost nothing.

    In each simulated repetition ``spared`` cuts drawn at random have no effect and every other one
    costs twice the bound; the noise of an estimate is that of a resample, correlations between
    cuts included.

    Args:
        change, low, drawn: as for :func:`share_above`.
        bound: below 0.
        spared: how many cuts truly have no effect.
        least: the share that must be found above the bound ...
        least_low: ... and what the lower end of its 95% interval must reach.
    """
    rng = np.random.default_rng(seed)
    width, noise = low - change, drawn - change
    cuts, decided = len(change), 0
    for _ in range(worlds):
        true = np.full(cuts, 2 * bound)
        true[rng.permutation(cuts)[:spared]] = 0.0
        observed = true + noise[rng.integers(len(noise))] + width
        again = observed + noise[rng.integers(len(noise), size=worlds)]
        lowest = np.quantile((again > bound).mean(1), 0.025)
        decided += (observed > bound).mean() >= least - 1e-9 and lowest >= least_low - 1e-9
    return decided / worlds


# Means over few trainings: texts within trainings, trainings within the recipe


@dataclass(frozen=True)
class TrainingsMean:
    """A mean over trainings with its 95% t interval.

    Attributes:
        error: the standard error of the mean.
        freedom: Satterthwaite's degrees of freedom.
    """

    value: float
    low: float
    high: float
    error: float
    freedom: float


def text_influences(statistic: Statistic, systems: ArrayLike) -> Array:
    """Contribution of each text to each system's score, (systems, texts), by the jackknife.

    The sum of the squares of a row is the jackknife's variance of the score, and the sum of the
    products of two rows the covariance of two scores on the same texts.

    Args:
        systems: (systems, texts, k).
    """
    systems = np.asarray(systems, np.float64)
    texts = systems.shape[1]
    without_one = statistic(systems.sum(1, keepdims=True) - systems)  # (systems, texts)
    centred = without_one.mean(-1, keepdims=True) - without_one
    return centred * np.sqrt((texts - 1) / texts)


def over_trainings(values: ArrayLike, influences: ArrayLike) -> TrainingsMean:
    """The mean over trainings, with a t interval by Satterthwaite's degrees of freedom.

    Its variance is that of the trainings' values, divided by their number, plus that of the mean
    over texts. Text noise that is specific to a training is in both terms, so that the interval is
    too wide rather than too narrow. With one training, the interval reflects its texts alone.

    Args:
        values: (trainings,).
        influences: (trainings, texts), see :func:`text_influences`; 0 for a text that a training
            was not measured on.
    """
    influences = np.asarray(influences, np.float64)
    of_texts = float(np.square(influences.mean(0)).sum())
    return _over_trainings(values, of_texts, influences.shape[1] - 1)


def over_trainings_alike(values: ArrayLike, errors: ArrayLike) -> TrainingsMean:
    """Like :func:`over_trainings`, if only the standard error of each training's value is known.

    The trainings are measured on the same texts, whose noise is taken to be common to all, so that
    its variance is not divided by their number.

    Args:
        values, errors: (trainings,).
    """
    return _over_trainings(values, float(np.square(errors).mean()), math.inf)


def _over_trainings(values: ArrayLike, of_texts: float, freedom_of_texts: float) -> TrainingsMean:
    values = np.asarray(values, np.float64)
    trainings = len(values)
    of_trainings = float(values.var(ddof=1)) / trainings if trainings > 1 else 0.0
    variance = of_texts + of_trainings
    weighted = of_texts**2 / freedom_of_texts
    weighted += of_trainings**2 / (trainings - 1) if trainings > 1 else 0.0
    freedom = variance**2 / weighted if weighted > 0 else freedom_of_texts
    error, value = variance**0.5, float(values.mean())
    half = float(scipy.stats.t.isf(0.025, freedom)) * error
    return TrainingsMean(value, value - half, value + half, error, float(freedom))


# What a curve or a row of numbers comes to


def gini(values: ArrayLike) -> Array:
    """Gini coefficient of each row of ``values`` (..., n), none below 0: 0 if all are equal.

    ``sum_ij |x_i - x_j| / (2 n sum x)``, by the sorted values; a row of zeros gets 0.
    """
    values = np.sort(np.asarray(values, np.float64), axis=-1)
    n, total = values.shape[-1], values.sum(-1)
    weighted = (values * (2 * np.arange(1, n + 1) - n - 1)).sum(-1)
    return np.divide(weighted, n * total, out=np.zeros_like(total), where=total > 0)


def kept_above_chance(
    score: ArrayLike, whole: ArrayLike, chance: float = 0.0, nothing: float = np.nan
) -> Array:
    """Share of the whole model's score above chance that is kept; shapes broadcast.

    For a loss, negate both losses and that of chance.

    Args:
        nothing: the share of a model at chance or below, which has nothing to keep. Give 0 for a
            mean over resamples, a few of which may fall to chance.
    """
    above = np.asarray(whole, float) - chance
    kept = np.asarray(score, float) - chance
    above, kept = np.broadcast_arrays(above, kept)
    return np.divide(kept, above, out=np.full(above.shape, nothing), where=above > 0)


def area_under_curve(shares: ArrayLike, scores: ArrayLike) -> Array:
    """Trapezoid area of scores (..., shares) over the width of ``shares``: a mean score, (...)."""
    shares, scores = np.asarray(shares, np.float64), np.asarray(scores, np.float64)
    return np.trapezoid(scores, shares, axis=-1) / (shares[-1] - shares[0])


def prunable_share(shares: ArrayLike, scores: ArrayLike, chance: float, tolerance: float) -> Array:
    """Largest share up to which no drop exceeds ``tolerance`` of (unpruned - chance), shape (...).

    ``scores`` is (..., shares), its first entry the unpruned model's. A model that is at chance or
    below has nothing to lose, and gets 0.
    """
    shares, scores = np.asarray(shares, np.float64), np.asarray(scores, np.float64)
    above_chance = scores[..., :1] - chance
    # Drops equal to the bound count as within it, even after rounding of the difference.
    within = scores[..., :1] - scores <= tolerance * above_chance + 1e-12
    kept = np.logical_and.accumulate(within & (above_chance > 0), axis=-1).sum(axis=-1)
    return shares[np.maximum(kept - 1, 0)]
