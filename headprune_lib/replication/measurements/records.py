"""What a result file says of an estimate: the value with its 95% interval, in one form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headprune_lib.replication import stats

Difference = dict[str, Any]
"""A paired difference with its 95% interval: ``difference``, ``interval``."""
Correlation = dict[str, Any]
"""A correlation over heads: ``r``, ``interval`` (95%) and ``p``; None where it is not defined."""
Prunable = dict[str, Any]
"""The largest share of the heads removable at a tolerated loss: ``share``, ``interval`` (95%)."""


@dataclass(frozen=True)
class Resamples:
    """Resamples of a bootstrap, and what they are drawn with."""

    resamples: int = 5_000
    seed: int = 0


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
        return _correlation(None)
    return _correlation(stats.correlation(x, y, method, resamples, seed))


def partial_record(
    x: np.ndarray,
    y: np.ndarray,
    groups: np.ndarray,
    resamples: int,
    seed: int,
    given: Sequence[np.ndarray] = (),
) -> Correlation:
    """Spearman's correlation over heads with their group, and what is given, held fixed.

    All None where nothing is left to correlate.
    """
    try:
        return _correlation(stats.partial_spearman(x, y, [*given], groups, resamples, seed))
    except ValueError:
        return _correlation(None)


def _correlation(found: stats.Estimate | None) -> Correlation:
    if found is None:
        return {"r": None, "interval": [None, None], "p": None}
    return {"r": found.value, "interval": [found.low, found.high], "p": found.p}


def prunable_record(
    shares: np.ndarray,
    mean: np.ndarray,
    drawn: np.ndarray,
    chance: float,
    tolerances: Sequence[float],
) -> dict[str, Prunable]:
    """Largest share removable at each tolerance, with the interval over bootstrap draws.

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
