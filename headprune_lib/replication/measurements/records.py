"""What a result file says of an estimate: the value with its 95% interval, in one form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from headprune_lib.replication import stats


class Difference(TypedDict):
    """A paired difference with its 95% interval."""

    difference: float
    interval: Sequence[float]


class Correlation(TypedDict):
    """A correlation over heads with its 95% interval; None where it is not defined."""

    r: float | None
    interval: Sequence[float | None]
    p: float | None


class Prunable(TypedDict):
    """The largest share of the heads that can go at a tolerated loss, with its 95% interval."""

    share: float
    interval: Sequence[float]


def interval_record(drawn: np.ndarray) -> np.ndarray:
    """The 95% interval of bootstrap draws ``(resamples, ...)``: low and high along the first axis."""
    return np.quantile(drawn, [0.025, 0.975], axis=0)


def difference_record(value: float, drawn: np.ndarray) -> Difference:
    """A paired difference with the interval of its bootstrap draws ``(resamples,)``."""
    return {"difference": value, "interval": interval_record(drawn)}


def correlation_record(
    x: np.ndarray, y: np.ndarray, method: str, resamples: int, seed: int
) -> Correlation:
    """A correlation over heads; all None of fewer than 3, or where a side does not vary."""
    if len(x) < 3 or min(np.ptp(x), np.ptp(y)) == 0:
        return {"r": None, "interval": [None, None], "p": None}
    found = stats.correlation(x, y, method, resamples, seed)
    return {"r": found.value, "interval": [found.low, found.high], "p": found.p}


def partial_record(
    x: np.ndarray, y: np.ndarray, groups: np.ndarray, resamples: int, seed: int
) -> Correlation:
    """Spearman's correlation over heads with their group held fixed; all None without variation."""
    try:
        found = stats.partial_spearman(x, y, [], groups, resamples, seed)
    except ValueError:  # nothing is left to correlate
        return {"r": None, "interval": [None, None], "p": None}
    return {"r": found.value, "interval": [found.low, found.high], "p": found.p}


def prunable_record(
    shares: np.ndarray,
    mean: np.ndarray,
    drawn: np.ndarray,
    chance: float,
    tolerances: Sequence[float],
) -> dict[str, Prunable]:
    """Largest share that goes at each tolerance, with the interval over bootstrap draws.

    Args:
        shares: (steps + 1,) shares removed.
        mean, drawn: the mean curve (steps + 1,) and its draws (resamples, steps + 1).
        chance: the score that a model without any head can be expected to have.
    """
    return {
        tolerance_key(tolerance): {
            "share": float(stats.prunable_share(shares, mean, chance, tolerance)),
            "interval": interval_record(stats.prunable_share(shares, drawn, chance, tolerance)),
        }
        for tolerance in tolerances
    }


def tolerance_key(tolerance: float) -> str:
    """The key of a tolerance in a result's values; JSON has no numbers for keys.

    >>> tolerance_key(0.02)
    '2%'
    """
    return f"{tolerance:.0%}"
