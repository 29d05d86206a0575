"""Time two things in turn, round by round, so that a slower moment of the machine hits both."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm


@dataclass(frozen=True)
class Row:
    """One comparison. ``ratio`` is the median over rounds of seconds / reference seconds.

    ``floor`` is what the floating-point operations alone would allow; ``n`` is how many things,
    such as translations, each of the two made in its seconds.
    """

    what: str
    reference: str
    seconds: float
    reference_seconds: float
    ratio: float
    quartiles: tuple[float, float]
    floor: float | None
    target: str
    n: int | None = None


def compare(
    what: str,
    function: Callable[[], object],
    reference: str,
    other: Callable[[], object],
    rounds: int,
    floor: float | None,
    target: str,
    n: int | None = None,
) -> Row:
    """Time both once to warm up, then ``rounds`` times in turn; see :class:`Row` for the rest."""
    first, second = [], []
    for counted in tqdm([False] + rounds * [True], desc=f"{what} / {reference}", unit="round"):
        pair = _seconds(function), _seconds(other)
        if counted:  # the first round warms up
            first.append(pair[0])
            second.append(pair[1])
    ratios = np.array(first) / np.array(second)
    low, median, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    return Row(
        what,
        reference,
        float(np.median(first)),
        float(np.median(second)),
        float(median),
        (float(low), float(high)),
        floor,
        target,
        n,
    )


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
