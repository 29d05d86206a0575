"""The share of cuts that are removable, with its interval and the power to find it (claim C1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.bounds import (
    C1_REMOVABLE,
    C1_REMOVABLE_LOW,
    PAPER_CHANGING,
)


@dataclass(frozen=True)
class Draws:
    """Resamples of the examples, and imagined repetitions for the power.

    ``changing`` is the share of cuts that truly cost something in these; ``least`` and
    ``least_low`` are what claim C1 asks of the share and of the lower end of its interval.
    """

    resamples: int = 2_000
    worlds: int = 400
    seed: int = 0
    changing: float = PAPER_CHANGING
    least: float = C1_REMOVABLE
    least_low: float = C1_REMOVABLE_LOW


class Removable(TypedDict):
    """Of a set of cuts: how many are needed, and what is known of the share that is removable.

    ``detectable`` is the distance from delta that the median cut's interval shows with
    probability 0.8, in the units of the change.
    """

    needed: int
    removable_interval: list[float]
    power: float
    detectable: float


def removable_record(
    change: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    drawn: np.ndarray,
    delta: float,
    draws: Draws,
) -> Removable:
    """What is said of the cuts of a sweep.

    Args:
        change, low, high: (cuts,) changes of the metric with their 95% intervals.
        drawn: (resamples, cuts) changes on resampled examples, the same draws for all cuts.
        delta: the largest loss that counts as none.
    """
    _, ends = stats.share_above(change, low, drawn, -delta)
    errors = [stats.standard_error(pair) for pair in zip(low, high, strict=True)]
    return {
        "needed": int((high < -delta).sum()),
        "removable_interval": ends,
        "power": stats.power_of_share(
            change,
            low,
            drawn,
            bound=-delta,
            spared=len(change) - round(draws.changing * len(change)),
            least=draws.least,
            least_low=draws.least_low,
            worlds=draws.worlds,
            seed=draws.seed,
        ),
        "detectable": stats.detectable(float(np.median(errors))),
    }
