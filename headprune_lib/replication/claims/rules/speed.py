"""C6: a model with half of its heads removed runs faster."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from headprune_lib.replication.claims.verdict import NOT_RUN, Estimate, Judged, Word, ends
from headprune_lib.replication.stats import all_of, detectable, power_above, standard_error

# Batch sizes at which the halved model must be faster, the ratio it must exceed, the paper's ratio.
LARGE, C6_RATIO, C6_PAPER = (16, 64), 1.10, 1.175
# Batch sizes at which the paper finds next to nothing (+1.9% and +2.7%).
SMALL, C6_NOTHING = (1, 4), 1.05

Ratios = Mapping[int, Mapping[str, Any]]


def faster(ratios: Ratios | None) -> Judged:
    """C6 from batch size -> ``ratio`` of examples a second, pruned over unpruned, and ``interval``."""
    found = _of(ratios, LARGE)
    if found is None:
        return NOT_RUN
    if all(ratio > C6_RATIO and low > 1 for ratio, low, _ in found):
        word: Word = "replicates"
    else:
        word = "differs" if any(high < C6_RATIO for *_, high in found) else "inconclusive"
    errors = [standard_error((math.log(low), math.log(high))) for _, low, high in found]
    # the estimate itself must pass the bound, its interval 1 alone
    powers = [
        min(_above(C6_PAPER, C6_RATIO, error), power_above(math.log(C6_PAPER), 0.0, error))
        for error in errors
    ]
    return Judged(
        word,
        all(ratio > C6_RATIO for ratio, *_ in found),
        _told(found, LARGE),
        all_of(powers),
        f"{math.expm1(detectable(max(errors))):.1%} faster or slower",
        estimates=_estimates(found, LARGE),
    )


def no_faster(ratios: Ratios | None) -> Judged:
    """The other half of the paper's Table 4: next to nothing is gained at small batches."""
    found = _of(ratios, SMALL)
    if found is None:
        return NOT_RUN
    if all(high < C6_RATIO for *_, high in found):
        word: Word = "replicates"
    else:
        word = "differs" if any(low > C6_NOTHING for _, low, _ in found) else "inconclusive"
    errors = [standard_error((math.log(low), math.log(high))) for _, low, high in found]
    return Judged(
        word,
        all(ratio < C6_NOTHING for ratio, *_ in found),
        _told(found, SMALL),
        all_of([power_above(math.log(C6_RATIO), math.log(1.023), error) for error in errors]),
        f"{math.expm1(detectable(max(errors))):.1%} faster or slower",
        aside="stands beside: the claim is about large batches",
        estimates=_estimates(found, SMALL),
    )


def _above(true: float, bound: float, error: float) -> float:
    """Probability that an estimate of a ratio is above a bound, without an interval."""
    if error <= 0:
        return float(true > bound)
    return 0.5 * math.erfc(-math.log(true / bound) / error / math.sqrt(2))


def _of(ratios: Ratios | None, sizes: tuple[int, ...]) -> list[tuple[float, float, float]] | None:
    if not ratios or not set(sizes) <= set(ratios):
        return None
    return [(ratios[size]["ratio"], *ends(ratios[size]["interval"])) for size in sizes]


def _estimates(
    found: list[tuple[float, float, float]], sizes: tuple[int, ...]
) -> tuple[Estimate, ...]:
    return tuple(
        Estimate(ratio, (low, high), C6_RATIO, f"batch {size}")
        for size, (ratio, low, high) in zip(sizes, found, strict=True)
    )


def _told(found: list[tuple[float, float, float]], sizes: tuple[int, ...]) -> str:
    told = "; ".join(
        f"batch {size}: {ratio:.2f} times as fast [{low:.2f}, {high:.2f}]"
        for size, (ratio, low, high) in zip(sizes, found, strict=True)
    )
    return f"{told[0].upper()}{told[1:]}."
