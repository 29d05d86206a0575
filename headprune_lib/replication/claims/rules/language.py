"""What is asked of a language model: heads removed together, and one at a time (book/rules.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from headprune_lib.replication.claims.verdict import defined
from headprune_lib.replication.stats.bounds import C1_NEEDED, C1_REMOVABLE, C3_KEPT

Answer = Literal["there", "not there", "open"]

REMOVED = 0.2
"""The share of the heads at which it is asked: the paper's for its large translator."""
DELTA_NATS = 0.01
"""The largest added loss a token that still counts as none: 1% of perplexity."""


@dataclass(frozen=True)
class Redundancy:
    """Whether heads can go together.

    ``kept`` is the share of the uncut model's gain over the frequencies of tokens; None where it
    has no gain.
    """

    answer: Answer
    kept: float | None
    interval: tuple[float | None, float | None]


@dataclass(frozen=True)
class SingleHeads:
    """How many heads can go one at a time, and how many cannot."""

    answer: Answer
    heads: int
    removable: int
    needed: int


def together(values: Mapping[str, Any], order: str = "importance") -> Redundancy:
    """From the values of ``language_curve``, in the paper's order.

    Raises:
        ValueError: 20% removed was not measured.
    """
    found = np.flatnonzero(np.isclose(values["shares"], REMOVED))
    if not len(found):
        raise ValueError(f"{REMOVED:.0%} removed was not measured, only {values['shares']}")
    step = int(found[0])
    curve = values["curves"][order]
    kept, (low, high) = curve["kept"][step], curve["kept_interval"][step]
    whole = curve["kept_interval"][0][0]  # 0 of a model, or a resample, that has nothing to keep
    if not (defined(kept, low, high, whole) and whole > 0):
        return Redundancy("open", None, (None, None))
    return Redundancy(
        "there" if low >= C3_KEPT else "not there" if high < C3_KEPT else "open",
        float(kept),
        (float(low), float(high)),
    )


def one_at_a_time(values: Mapping[str, Any]) -> SingleHeads:
    """From the values of ``language_heads``."""
    low, high = np.array([head["interval"] for head in values["heads"]]).T
    heads, removable, needed = (
        len(low),
        int((high <= DELTA_NATS).sum()),
        int((low > DELTA_NATS).sum()),
    )
    enough = removable >= C1_REMOVABLE * heads - 1e-9
    many = needed > C1_NEEDED * heads + 1e-9
    return SingleHeads(
        "there" if enough else "not there" if many else "open", heads, removable, needed
    )
