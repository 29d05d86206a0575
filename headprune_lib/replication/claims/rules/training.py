"""C5: important and unimportant heads grow apart during training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headprune_lib.replication.claims.verdict import NOT_RUN, Estimate, Judged, Word, ends
from headprune_lib.replication.stats import power_above_t

LEAST_TRAININGS = 3
# The paper's Figure 5 at 40% removed: a straight decline keeps 60% of BLEU in the first epochs, and
# 85% to 90% is kept from epoch 10 on, which has 88% of the final BLEU.
C5_PAPER_EARLY, C5_PAPER_LATE = 0.60, 0.85
# Early and late are told by the share of the final BLEU (the paper's epochs 2 and 10), and a
# checkpoint whose BLEU is next to nothing is neither: what it keeps is noise.
C5_EARLY_BLEU, C5_LATE_BLEU, LEAST_BLEU = 0.20, 0.88, 1.0
C5_PAPER_RISE = 0.875 - C5_PAPER_EARLY
NAMES = {
    "kept": "share of BLEU kept, importance minus random",
    "loss": "added loss, random minus importance (nats a piece)",
    "gini": "Gini coefficient within layers",
}

_SHORT = {"kept": "BLEU kept", "loss": "loss added", "gini": "Gini"}


def apart(values: Mapping[str, Any]) -> Judged:
    """C5 from slopes over the logarithm of the updates, each the mean over trainings.

    A quantity goes up if its interval lies above 0.

    Args:
        values: ``trainings``, each with its ``checkpoints`` (``bleu`` and ``kept`` along the
            curve), the share ``removed`` that they are compared at, and ``shares`` of the curve;
            where random orders were measured, ``slopes``: ``kept``, ``loss`` and ``gini`` ->
            ``difference``, the 95% t ``interval`` over trainings (None of fewer than three) and
            ``runs``, the slope of each (``kept`` is left out where too few checkpoints of a
            training translate at all); and ``log_range`` of the updates that they are over.
    """
    if not values.get("trainings"):
        return NOT_RUN
    number, kept = len(values["trainings"]), _early_and_late(values)
    met = None if kept is None else _met(*kept)
    told = "" if kept is None else f" Kept at 40%: early {kept[0]:.0%}, late {kept[1]:.0%}."
    slopes = values.get("slopes")
    if not slopes:
        told = f"{_trainings(number)} without random orders.{told}"
        return Judged("inconclusive", met, told, 0.0, "none: random orders are needed")
    told = (
        f"Slope an e-fold of updates, {_trainings(number)}: "
        + "; ".join(
            f"{NAMES[name]} {slope['difference']:+.3f}{_ends(slope)}"
            for name, slope in slopes.items()
        )
        + f".{told}"
    )
    if number < LEAST_TRAININGS:
        needed = f"none: {LEAST_TRAININGS} trainings are needed"
        return Judged("inconclusive", met, told, 0.0, needed)
    if "kept" not in slopes:
        needed = f"none: two checkpoints of each training need at least {LEAST_BLEU:.0f} BLEU"
        return Judged("inconclusive", met, told, 0.0, needed)
    paper = C5_PAPER_RISE / values["log_range"]
    error = float(np.std(slopes["kept"]["runs"], ddof=1) / np.sqrt(number))
    return Judged(
        _word(slopes, paper),
        met,
        told,
        power_above_t(paper, error, number),
        f"of the share of BLEU kept: a slope of {_half_width(slopes['kept']):.3f} around what was "
        f"found (the paper's rise is {paper:.3f})",
        estimates=tuple(
            Estimate(slope["difference"], ends(slope["interval"]), 0.0, _SHORT[name])
            for name, slope in slopes.items()
        ),
        trainings=number,
    )


def _early_and_late(values: Mapping[str, Any]) -> tuple[float, float] | None:
    """Mean share of BLEU kept by importance, of early and of late checkpoints; None without either."""
    at = int(np.flatnonzero(np.isclose(values["shares"], values["removed"]))[0])
    early, late = [], []
    for training in values["trainings"]:
        best = max(checkpoint["bleu"][0] for checkpoint in training["checkpoints"])
        for checkpoint in training["checkpoints"]:
            bleu = checkpoint["bleu"][0]
            if LEAST_BLEU <= bleu <= C5_EARLY_BLEU * best:
                early.append(checkpoint["kept"][at])
            elif bleu >= C5_LATE_BLEU * best:
                late.append(checkpoint["kept"][at])
    return (float(np.mean(early)), float(np.mean(late))) if early and late else None


def _word(slopes: Mapping[str, Mapping[str, Any]], paper: float) -> Word:
    found = {name: ends(slope["interval"]) for name, slope in slopes.items()}
    up = [low > 0 for low, _ in found.values()]
    if all(up):
        return "replicates"
    low, high = found["kept"]
    if low <= 0 and high >= paper:  # holds no rise and the paper's
        return "inconclusive"
    return "mixed" if any(up) else "differs"


def _met(early: float, late: float) -> bool:
    """Early nearer to a straight decline than to the late share, and late at least the paper's."""
    return early < (C5_PAPER_EARLY + C5_PAPER_LATE) / 2 and late >= C5_PAPER_LATE


def _ends(slope: Mapping[str, Any]) -> str:
    if slope["interval"] is None:
        return ""
    low, high = ends(slope["interval"])
    return f" [{low:+.3f}, {high:+.3f}]"


def _half_width(slope: Mapping[str, Any]) -> float:
    low, high = ends(slope["interval"])
    return (high - low) / 2


def _trainings(n: int) -> str:
    return "1 training" if n == 1 else f"{n} trainings"
