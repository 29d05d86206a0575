"""C1 and C2: heads removed one at a time, and all but one of a layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headprune_lib.replication.claims.verdict import NOT_RUN, Estimate, Judged, ends
from headprune_lib.replication.stats import detectable, power_above, standard_error
from headprune_lib.replication.stats.bounds import (
    ALPHA,
    C1_NEEDED,
    C1_REMOVABLE,
    C1_REMOVABLE_LOW,
    DELTA,
    DELTA_BLEU,
)

# C2: share of layers that one head must be enough for, by half (the paper's Table 5: 9 of 18).
C2_LAYERS = {"encoder": 0.80, "translation": 0.40}
# C2: share of the layers that lose nothing in the paper (Table 6: 12 of 12; Table 5: 9 of 18).
C2_PAPER = {"encoder": 1.0, "translation": 0.5}
_WORLDS = 4_000
# Shares such as 0.4 come out of sums as 0.39999...; they are meant to equal their bound.
_ROUNDING = 1e-9


def one_at_a_time(
    counts: Mapping[str, Any] | None, share: Mapping[str, Any] | None, half: str
) -> Judged:
    """C1 from a sweep over single heads; None if nothing was measured.

    Args:
        counts: ``heads``, ``removable``, ``raw_losses`` and ``raw_gains``.
        share: ``needed`` heads, and of the removable share its ``removable_interval``, ``power``
            and what the median head's interval would show beyond delta, ``detectable``.
    """
    if counts is None or share is None:
        return NOT_RUN
    counts = {**counts, **share}
    heads, removable, needed = (counts[name] for name in ("heads", "removable", "needed"))
    if not 0 < heads >= removable + needed or min(removable, needed) < 0:
        raise ValueError(
            f"counts are {dict(counts)}; expected heads > 0, and removable and needed that are "
            "no more than heads together"
        )
    low, high = ends(counts["removable_interval"])
    enough = removable >= C1_REMOVABLE * heads - _ROUNDING and low >= C1_REMOVABLE_LOW - _ROUNDING
    word = (
        "replicates"
        if enough
        else "differs"
        if needed > C1_NEEDED * heads + _ROUNDING
        else "inconclusive"
    )
    changing = counts["raw_losses"] + counts["raw_gains"]
    return Judged(
        word,
        changing <= C1_NEEDED * heads + _ROUNDING,
        f"{removable} of {heads} heads ({removable / heads:.0%} [{low:.0%}, {high:.0%}]) are "
        f"removable, {needed} needed; {changing} change the score at p < {ALPHA}.",
        counts["power"],
        f"of the median head: {in_units(counts['detectable'], half)} more or less than "
        f"{delta(half)}",
        estimates=(Estimate(removable / heads, (low, high), C1_REMOVABLE),),
    )


def one_head_a_layer(layers: Sequence[Mapping[str, Any]] | None, half: str) -> Judged:
    """C2 from one record a layer: ``kind``, ``layer``, ``delta``, its ``interval`` and raw ``p``.

    The head that a layer keeps must have been chosen on other data.
    """
    if layers is None:
        return NOT_RUN
    if not layers:
        raise ValueError("no layers; expected one record a layer")
    tolerated = DELTA_BLEU if half == "translation" else DELTA
    found = [ends(record["interval"]) for record in layers]
    enough = [low > -tolerated for low, _ in found]
    lacking = [high < -tolerated for _, high in found]
    n, least = len(layers), C2_LAYERS[half]
    word = (
        "replicates"
        if sum(enough) >= least * n - _ROUNDING
        else "differs"
        if sum(lacking) > (1 - least) * n + _ROUNDING
        else "inconclusive"
    )
    losing = sum(record["delta"] < 0 and record["p"] < ALPHA for record in layers)
    rest = [not (yes or no) for yes, no in zip(enough, lacking, strict=True)]
    told = f"One head is enough in {sum(enough)} of {n} layers"
    for label, chosen in (("not enough in", lacking), ("open for", rest)):
        if any(chosen):
            told += f"; {label} {_names(layers, chosen)}"
    errors = [standard_error(interval) for interval in found]
    return Judged(
        word,
        n - losing >= C2_PAPER[half] * n - _ROUNDING,
        f"{told}. {losing} lose at p < {ALPHA}.",
        _power_of_layers(errors, tolerated, round(C2_PAPER[half] * n), least * n - _ROUNDING),
        f"of the median layer: {in_units(detectable(float(np.median(errors))), half)} more or "
        f"less than {delta(half)}",
        estimates=(Estimate(sum(enough) / n, None, least),),
    )


def _power_of_layers(
    errors: Sequence[float], tolerated: float, spared: int, least: float, seed: int = 0
) -> float:
    """Probability that at least ``least`` layers are found to lose less than ``tolerated``.

    In each imagined repetition ``spared`` layers drawn at random lose nothing, and the others lose
    so much that they are never found enough.
    """
    rng = np.random.default_rng(seed)
    chances = np.array([power_above(0.0, -tolerated, error) for error in errors])
    layers = rng.permuted(np.tile(np.arange(len(errors)) < spared, (_WORLDS, 1)), axis=1)
    found = layers & (rng.random(layers.shape) < chances)
    return float((found.sum(1) >= least).mean())


def delta(half: str) -> str:
    """The loss that still counts as none, in words."""
    return f"{DELTA_BLEU} BLEU" if half == "translation" else f"{100 * DELTA:g} point of accuracy"


def in_units(effect: float, half: str) -> str:
    """An effect on the score, in words."""
    return f"{effect:.2f} BLEU" if half == "translation" else f"{100 * effect:.2f} points"


def _names(layers: Sequence[Mapping[str, Any]], chosen: Sequence[bool]) -> str:
    """The chosen layers, from 1, with their kind where the model has several."""
    several = len({record["kind"] for record in layers}) > 1
    names = [
        f"{record['kind']} {record['layer'] + 1}" if several else str(record["layer"] + 1)
        for record, of_these in zip(layers, chosen, strict=True)
        if of_these
    ]
    return ("layer " if len(names) == 1 else "layers ") + ", ".join(names)
