"""What a result file says of an estimate: the value with its 95% interval, in one form."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headprune_lib import stats

TOLERANCES = (0.01, 0.02, 0.05)


def interval_record(drawn: np.ndarray) -> np.ndarray:
    """The 95% interval of bootstrap draws ``(resamples, ...)``: low and high along the first axis."""
    return np.quantile(drawn, [0.025, 0.975], axis=0)


def difference_record(value: float, drawn: np.ndarray) -> dict:
    """A paired difference with the interval of its bootstrap draws ``(resamples,)``."""
    return {"difference": value, "interval": interval_record(drawn)}


def correlation_record(x: np.ndarray, y: np.ndarray, method: str, resamples: int, seed: int) -> dict:
    """A correlation over heads; all None of fewer than 3, or where a side does not vary."""
    if len(x) < 3 or min(np.ptp(x), np.ptp(y)) == 0:
        return {"r": None, "interval": [None, None], "p": None}
    found = stats.correlation(x, y, method, resamples, seed)
    return {"r": found.value, "interval": [found.low, found.high], "p": found.p}


def prunable_record(shares: np.ndarray, mean: np.ndarray, drawn: np.ndarray,
                    chance: float) -> Mapping[str, dict]:
    """Largest share that goes at each tolerance, with the interval over bootstrap draws.

    Args:
        shares: (steps + 1,) shares removed.
        mean, drawn: the mean curve (steps + 1,) and its draws (resamples, steps + 1).
        chance: the score that a model without any head can be expected to have.
    """
    return {
        f"{tolerance:.0%}": {
            "share": float(stats.prunable_share(shares, mean, chance, tolerance)),
            "interval": interval_record(stats.prunable_share(shares, drawn, chance, tolerance)),
        }
        for tolerance in TOLERANCES
    }
