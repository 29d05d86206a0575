"""C6: a model with half of its heads removed runs faster."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from headprune_lib.replication.claims.verdict import NOT_RUN, Estimate, Judged, Word, ends
from headprune_lib.replication.stats import all_of, detectable, power_above, standard_error

# Batch sizes at which the halved model must be faster, the ratio it must exceed, the paper's ratio.
LARGE, C6_RATIO, C6_PAPER = (16, 64), 1.10, 1.175
# Batch sizes at which the paper finds next to nothing, the ratio that is something, the paper's ratio.
SMALL, C6_NOTHING, C6_PAPER_SMALL = (1, 4), 1.05, 1.023


def faster(ratios: Mapping[int, Mapping[str, Any]] | None) -> Judged:
    """C6, one statement: faster at batches of 16 and 64, and not at 1 and 4.

    Args:
        ratios: batch size -> ``ratio`` of examples a second, pruned over unpruned, and ``interval``.
    """
    if not ratios or not {*LARGE, *SMALL} <= ratios.keys():
        return NOT_RUN
    found = {size: (ratios[size]["ratio"], *ends(ratios[size]["interval"])) for size in ratios}
    large, small = [found[size] for size in LARGE], [found[size] for size in SMALL]
    if all(ratio > C6_RATIO and low > 1 for ratio, low, _ in large) and all(
        high < C6_RATIO for *_, high in small
    ):
        word: Word = "replicates"
    elif any(high < C6_RATIO for *_, high in large) or any(low > C6_NOTHING for _, low, _ in small):
        word = "differs"
    else:
        word = "undecided"
    errors = {
        size: standard_error((math.log(low), math.log(high)))
        for size, (_, low, high) in found.items()
    }
    # at large batches the estimate itself must pass the bound, its interval 1 alone
    powers = [
        min(
            _above(C6_PAPER, C6_RATIO, errors[size]),
            power_above(math.log(C6_PAPER), 0, errors[size]),
        )
        for size in LARGE
    ] + [power_above(math.log(C6_RATIO), math.log(C6_PAPER_SMALL), errors[size]) for size in SMALL]
    sizes = (*LARGE, *SMALL)
    told = "; ".join(
        f"batch {size}: {ratio:.2f} times as fast [{low:.2f}, {high:.2f}]"
        for size in sizes
        for ratio, low, high in [found[size]]
    )
    return Judged(
        word,
        all(ratio > C6_RATIO for ratio, *_ in large) and all(one[0] < C6_NOTHING for one in small),
        f"{told[0].upper()}{told[1:]}.",
        all_of(powers),
        f"{math.expm1(detectable(max(errors.values()))):.1%} faster or slower",
        estimates=tuple(
            Estimate(ratio, (low, high), C6_RATIO, f"batch {size}")
            for size in sizes
            for ratio, low, high in [found[size]]
        ),
    )


def _above(true: float, bound: float, error: float) -> float:
    """Probability that an estimate of a ratio is above a bound, without an interval."""
    if error <= 0:
        return float(true > bound)
    return 0.5 * math.erfc(-math.log(true / bound) / error / math.sqrt(2))
