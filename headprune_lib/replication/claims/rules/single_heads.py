"""C1 and C2: heads removed one at a time, and all but one of a layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headprune_lib.replication.claims.verdict import NOT_RUN, Estimate, Judged, ends
from headprune_lib.replication.published import paper
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
# C2: share of the layers that do not lose significantly in the paper (Table 6: 12 of 12; Table 5: 9 of 18).
C2_PAPER = {"encoder": 1.0, "translation": 0.5}
_WORLDS = 4_000
# Shares such as 0.4 come out of sums as 0.39999...; they are meant to equal their bound.
_ROUNDING = 1e-9


def one_at_a_time(
    counts: Mapping[str, Any] | None, share: Mapping[str, Any] | None, half: str
) -> Judged:
    """C1 from a sweep over single heads; None if nothing was measured.

    Args:
        counts: ``heads``, ``removable``, ``paper_losses`` and ``paper_gains``.
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
        else "undecided"
    )
    changing = counts["paper_losses"] + counts["paper_gains"]
    return Judged(
        word,
        changing <= C1_NEEDED * heads + _ROUNDING,
        f"{removable} of {heads} heads ({removable / heads:.0%} [{low:.0%}, {high:.0%}]) are "
        f"removable, {needed} needed; {changing} change the score at p < {ALPHA} by the paper's test.",
        counts["power"],
        f"of the median head: {in_units(counts['detectable'], half)} more or less than "
        f"{delta(half)}",
        estimates=(Estimate(removable / heads, (low, high), C1_REMOVABLE),),
    )


def one_head_a_layer(layers: Sequence[Mapping[str, Any]] | None, half: str) -> Judged:
    """C2 from one record a layer, and what the paper's test says of it.

    The head that a layer keeps must have been chosen on other data.

    Args:
        layers: ``kind``, ``layer``, ``interval`` of the change, its ``error`` and ``freedom`` where it is a t
            interval over trainings, and ``losing``: the share of the trainings in which the layer
            loses at p < ALPHA by the paper's test, and ``losing_paired`` by a paired one.
    """
    if layers is None:
        return NOT_RUN
    if not layers:
        raise ValueError("no layers; expected one record a layer")
    tolerated = DELTA_BLEU if half == "translation" else DELTA
    intervals = [ends(record["interval"]) for record in layers]
    enough = [low > -tolerated for low, _ in intervals]
    lacking = [high < -tolerated for _, high in intervals]
    n, least = len(layers), C2_LAYERS[half]
    word = (
        "replicates"
        if sum(enough) >= least * n - _ROUNDING
        else "differs"
        if sum(lacking) > (1 - least) * n + _ROUNDING
        else "undecided"
    )
    losing, paired = (
        sum(record[name] for record in layers) for name in ("losing", "losing_paired")
    )
    rest = [not (yes or no) for yes, no in zip(enough, lacking, strict=True)]
    told = f"One head is enough in {sum(enough)} of {n} layers"
    for label, chosen in (("not enough in", lacking), ("open for", rest)):
        if any(chosen):
            told += f"; {label} {_names(layers, chosen)}"
    errors = [record.get("error") or standard_error(record["interval"]) for record in layers]
    freedoms = [record.get("freedom") or np.inf for record in layers]
    return Judged(
        word,
        n - losing >= C2_PAPER[half] * n - _ROUNDING,
        f"{told}. {losing:.3g} lose at p < {ALPHA} by the paper's test, {paired:.3g} by a paired one.",
        _power_of_layers(errors, freedoms, tolerated, paper_changes(half), least * n - _ROUNDING),
        f"of the median layer: {in_units(detectable(float(np.median(errors))), half)} more or "
        f"less than {delta(half)}",
        estimates=(Estimate(sum(enough) / n, None, least),),
    )


def paper_changes(half: str) -> list[float]:
    """The paper's own changes of the score with one head left, layer by layer (Tables 5 and 6)."""
    if half == "translation":
        return [change for kind in paper("table5").values() for change in kind["delta_bleu"]]
    return [change / 100 for change in paper("table6")["delta_accuracy_percent"]]


def _power_of_layers(
    errors: Sequence[float],
    freedoms: Sequence[float],
    tolerated: float,
    changes: Sequence[float],
    least: float,
    seed: int = 0,
) -> float:
    """Probability that at least ``least`` layers are found to lose less than ``tolerated``.

    In each imagined repetition the layers' true changes are drawn from ``changes``, each once.
    """
    rng = np.random.default_rng(seed)
    chances = np.array(
        [
            [power_above(change, -tolerated, error, freedom) for change in changes]
            for error, freedom in zip(errors, freedoms, strict=True)
        ]
    )  # (layers, changes)
    drawn = rng.permuted(np.tile(np.arange(len(changes)), (_WORLDS, 1)), axis=1)
    of_layers = np.arange(len(errors))
    true = drawn[:, of_layers % len(changes)]
    found = rng.random(true.shape) < chances[of_layers, true]
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
