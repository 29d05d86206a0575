"""Tests and intervals of a cut: the same examples before and after it, and once as if they were others.

"lost" counts the examples that only the uncut model gets right, "gained" those that only the cut
model gets right.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike, NDArray

from headprune_lib.replication.stats.checks import Array, Estimate, numbers, same


def _discordants(lost: ArrayLike, gained: ArrayLike) -> tuple[Array, Array]:
    lost, gained = numbers("lost", lost), numbers("gained", gained)
    same("shapes of lost and gained", lost.shape, gained.shape)
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


def paired_proportion_interval(
    lost: ArrayLike, gained: ArrayLike, n: int, confidence: float = 0.95
) -> tuple[Array, Array]:
    """Low and high end of Tango's score interval for the accuracy change (gained - lost) / n.

    The changes that the score test does not reject (Tango 1998, Statistics in Medicine 17:891); at
    a change of 0 its score is McNemar's z. Unlike Wald's interval it keeps its coverage with few
    discordants, and has width where there are none. ``n`` counts all examples.
    """
    lost, gained = _discordants(lost, gained)
    if not n >= (lost + gained).max() or n < 1:
        raise ValueError(
            f"n is {n}, but {(lost + gained).max():.0f} examples changed; "
            "n counts all examples, changed or not"
        )
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


def smallest_detectable(
    discordant_share: ArrayLike, n: int, alpha: float, power: float = 0.8
) -> Array:
    """Smallest accuracy change, a fraction, that McNemar's test at ``alpha`` finds with ``power``.

    Solves Connor's sample size formula (1987, Biometrics 43:207, after Miettinen 1968)
    ``n d^2 = (z_a sqrt(s) + z_b sqrt(s - d^2))^2`` for d, with s the share of discordants:
    ``d = k sqrt(s)``, ``k = (z_a sqrt(n) + z_b sqrt(n + z_b^2 - z_a^2)) / (n + z_b^2)``. A change
    of d takes a share of at least d, so s is raised to k^2 where it is smaller (then d = s).
    inf where ``n`` is too small to find any. For a family, pass Holm's first step, alpha / tests.
    """
    share = numbers("discordant_share", discordant_share)
    if ((share < 0) | (share > 1)).any() or n < 1:
        raise ValueError(
            f"discordant_share {discordant_share}, n {n}: expected shares in [0, 1] "
            "and at least 1 example"
        )
    z_a, z_b = scipy.stats.norm.isf(alpha / 2), scipy.stats.norm.isf(1 - power)
    k = (z_a * math.sqrt(n) + z_b * math.sqrt(max(n + z_b**2 - z_a**2, 0))) / (n + z_b**2)
    return k * np.sqrt(np.maximum(share, k**2)) if k <= 1 else np.full_like(share, np.inf)


def equivalence(interval_low: ArrayLike, delta: float) -> NDArray[np.bool_]:
    """True where the interval rules out a loss of ``delta`` or more: the head is removable."""
    return numbers("interval_low", interval_low) > -delta


def holm(p: ArrayLike) -> Array:
    """Holm-adjusted p-values of one family, in the shape of ``p``."""
    p = numbers("p", p)
    if ((p < 0) | (p > 1)).any():
        raise ValueError(f"p reaches from {p.min()} to {p.max()}; expected p-values in [0, 1]")
    order = p.argsort(axis=None)
    adjusted = np.empty(p.size)
    adjusted[order] = np.maximum.accumulate(p.ravel()[order] * np.arange(p.size, 0, -1))
    return np.minimum(adjusted, 1.0).reshape(p.shape)


def paired_t(difference: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Mean of (..., examples) over the last axis, its t interval and two-sided p, shape (...).

    A constant row has an interval of no width, and p = 1 if it is all 0, else 0.
    """
    difference = numbers("difference", difference, axes=1)
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


def unpaired_t(uncut: ArrayLike, cut: ArrayLike) -> Array:
    """Two-sided p of Student's t-test of (..., examples) rows of 0 and 1, as if of other examples.

    The paper's test of accuracy: -0.96 points of 9,815 pairs, which it does not mark at p < 0.01,
    would be significant in a paired one unless 13.6% of the answers changed. 1 without variation.
    """
    uncut, cut = numbers("uncut", uncut, axes=1), numbers("cut", cut, axes=1)
    same("numbers of examples", uncut.shape[-1], cut.shape[-1])
    examples = uncut.shape[-1]
    rates = uncut.mean(-1), cut.mean(-1)
    variance = sum(rate * (1 - rate) for rate in rates) / (examples - 1)
    change = np.asarray(rates[1] - rates[0])
    t = np.divide(change, np.sqrt(variance), out=np.zeros_like(change), where=variance > 0)
    return 2 * scipy.stats.t.sf(np.abs(t), 2 * examples - 2)


def ratio_interval(
    a: ArrayLike, b: ArrayLike, confidence: float = 0.95
) -> tuple[float, float, float]:
    """Geometric mean of a/b over paired repetitions, low and high: t interval of the log ratio."""
    a, b = numbers("a", a, axes=1), numbers("b", b, axes=1)
    same("shapes of a and b", a.shape, b.shape)
    if min(a.min(), b.min()) <= 0:
        raise ValueError(f"a and b reach down to {a.min()} and {b.min()}; expected numbers > 0")
    log = paired_t(np.log(a / b), confidence)
    return math.exp(log.value), math.exp(log.low), math.exp(log.high)
