"""What a measurement could have decided: power of a rule on intervals, and the smallest effect seen.

An estimate is taken as normal around the true value; a 95% interval tells its standard error.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.stats

from headprune_lib.replication.stats.checks import Array

Z95 = float(scipy.stats.norm.isf(0.025))
_Z80 = float(scipy.stats.norm.isf(0.2))


def standard_error(interval: Sequence[float]) -> float:
    """Of an estimate, from its 95% interval."""
    low, high = interval
    return (high - low) / (2 * Z95)


def power_above(true: float, bound: float, error: float, freedom: float = np.inf) -> float:
    """Probability that the lower end of the 95% interval of an estimate is above ``bound``.

    Args:
        true: what is estimated.
        error: the standard error; 0 means certainty.
        freedom: degrees of freedom of the t interval; a normal one where they are infinite.

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
    """A lower bound of the probability that all of several things happen, whatever ties them."""
    return max(0.0, 1.0 - sum(1.0 - power for power in powers))


def share_above(change: Array, low: Array, drawn: Array, bound: float) -> tuple[float, Array]:
    """Share of the changes whose interval lies above a bound, with its 95% interval.

    On resampled examples every interval moves with its change and keeps its width.

    Args:
        change, low: (cuts,) changes and the lower ends of their intervals.
        drawn: (resamples, cuts) changes on resampled examples.

    Returns:
        The share, and the low and high end of its percentile interval.
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
    """Probability that a share of cuts is found above a bound, where most of them cost nothing.

    In each imagined repetition ``spared`` cuts drawn at random have no effect and every other one
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
    cuts, found = len(change), 0
    for _ in range(worlds):
        true = np.full(cuts, 2 * bound)
        true[rng.permutation(cuts)[:spared]] = 0.0
        seen = true + noise[rng.integers(len(noise))] + width
        again = seen + noise[rng.integers(len(noise), size=worlds)]
        lowest = np.quantile((again > bound).mean(1), 0.025)
        found += (seen > bound).mean() >= least - 1e-9 and lowest >= least_low - 1e-9
    return found / worlds
