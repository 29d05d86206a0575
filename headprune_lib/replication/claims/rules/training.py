"""C5: important and unimportant heads grow apart during training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headprune_lib.replication.claims.verdict import NOT_RUN, Estimate, Judged, Word, ends
from headprune_lib.replication.stats import power_above
from headprune_lib.replication.stats.bounds import LEAST_BLEU

LEAST_TRAININGS = 3
# Our reading of the paper's Figure 5 at 40% removed: a straight decline keeps 60% of BLEU in the first
# epochs, and 85% to 90% is kept from epoch 10 on, which has 88% of the final BLEU.
C5_PAPER_EARLY, C5_PAPER_LATE = 0.60, 0.85
# Early and late are told by the share of the final BLEU (the paper's epochs 2 and 10), and a
# checkpoint whose BLEU is next to nothing is neither: what it keeps is noise.
C5_EARLY_BLEU, C5_LATE_BLEU, C5_SOME_BLEU = 0.20, 0.88, 1.0
C5_PAPER_RISE = 0.875 - C5_PAPER_EARLY
PARTS = {"importance": "kept by importance", "random": "kept in random orders"}
"""The two parts of the claim -> what their slopes are of."""


def apart(values: Mapping[str, Any]) -> Judged:
    """C5 in its two parts, from slopes over the logarithm of the updates.

    What importance keeps rises (the paper's Figure 5), and what random orders keep falls. Both:
    replicates; neither: differs; one of them, and the other is denied: mixed.

    Args:
        values: ``trainings``, each with its ``checkpoints`` (``bleu``, ``kept`` along the curve and
            ``settled``), the share ``removed`` that they are compared at, and ``shares`` of the
            curve; where random orders were measured, ``slopes``: ``importance`` and ``random`` ->
            ``difference``, the 95% t ``interval`` over trainings (None of fewer than three) with its
            ``error`` and ``freedom``; and ``log_range`` of the updates that they are over.
    """
    if not values.get("trainings"):
        return NOT_RUN
    number, kept = len(values["trainings"]), _early_and_late(values)
    met = None if kept is None else _met(*kept)
    told = "" if kept is None else f" Kept at 40%: early {kept[0]:.0%}, late {kept[1]:.0%}."
    slopes = values.get("slopes")
    if not slopes:
        told = f"{_trainings(number)} without random orders.{told}"
        return Judged("undecided", met, told, 0.0, "none: random orders are needed")
    parts = {name: slopes[name] for name in PARTS if name in slopes}
    told = (
        f"Slope an e-fold of updates, {_trainings(number)}: "
        + "; ".join(
            f"{PARTS[name]} {slope['difference']:+.3f}{_ends(slope)}"
            for name, slope in parts.items()
        )
        + f".{told}"
    )
    needed = f"none: {LEAST_TRAININGS} trainings are needed"
    if number >= LEAST_TRAININGS and len(parts) < len(PARTS):
        needed = f"none: two checkpoints of each training need at least {LEAST_BLEU:.0f} BLEU"
    if number < LEAST_TRAININGS or len(parts) < len(PARTS):
        return Judged("undecided", met, told, 0.0, needed)
    paper, rise = C5_PAPER_RISE / values["log_range"], parts["importance"]
    low, high = ends(rise["interval"])
    return Judged(
        _word(parts, paper),
        met,
        told,
        power_above(paper, 0.0, rise["error"], rise["freedom"]),
        f"of the share kept by importance: a slope of {(high - low) / 2:.3f} around what was found "
        f"(the paper's rise is {paper:.3f})",
        estimates=tuple(
            Estimate(slope["difference"], ends(slope["interval"]), 0.0, PARTS[name])
            for name, slope in parts.items()
        ),
        trainings=number,
    )


def _word(parts: Mapping[str, Mapping[str, Any]], paper: float) -> Word:
    """A part is denied where its interval holds no slope on the claim's side, or none like the paper's."""
    low, high = ends(parts["importance"]["interval"])
    rises: Word = "replicates" if low > 0 else "differs" if high < paper else "undecided"
    low, high = ends(parts["random"]["interval"])
    falls: Word = "replicates" if high < 0 else "differs" if low > 0 else "undecided"
    if rises == falls:
        return rises
    return "undecided" if "undecided" in (rises, falls) else "mixed"


def _early_and_late(values: Mapping[str, Any]) -> tuple[float, float] | None:
    """Mean share of BLEU kept by importance, of early and of late checkpoints; None without either."""
    at = int(np.flatnonzero(np.isclose(values["shares"], values["removed"]))[0])
    early, late = [], []
    for training in values["trainings"]:
        best = max(checkpoint["bleu"][0] for checkpoint in training["checkpoints"])
        for checkpoint in training["checkpoints"]:
            bleu = checkpoint["bleu"][0]
            if C5_SOME_BLEU <= bleu <= C5_EARLY_BLEU * best:
                early.append(checkpoint["kept"][at])
            elif bleu >= C5_LATE_BLEU * best:
                late.append(checkpoint["kept"][at])
    return (float(np.mean(early)), float(np.mean(late))) if early and late else None


def _met(early: float, late: float) -> bool:
    """Early nearer to a straight decline than to the late share, and late at least the paper's."""
    return early < (C5_PAPER_EARLY + C5_PAPER_LATE) / 2 and late >= C5_PAPER_LATE


def _ends(slope: Mapping[str, Any]) -> str:
    if slope["interval"] is None:
        return ""
    low, high = ends(slope["interval"])
    return f" [{low:+.3f}, {high:+.3f}]"


def _trainings(n: int) -> str:
    return "1 training" if n == 1 else f"{n} trainings"
