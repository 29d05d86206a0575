"""C7: heads that matter on one text matter on another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from headprune_lib.replication.claims.verdict import NOT_RUN, Estimate, Judged, by_sign, ends
from headprune_lib.replication.stats import detectable, power_above
from headprune_lib.replication.stats.bounds import ALPHA, C7_RELIABILITY

# The paper's Pearson correlations: BERT, and the translation model.
C7_PAPER = {"encoder": 0.68, "translation": 0.56}
# Fieller's factor: Spearman's coefficient, Fisher-transformed, varies by 1.06 / (n - 3).
_SPEARMAN = 1.06


def across(
    loss: Mapping[str, Any] | None, score: Mapping[str, Any] | None, heads: int, half: str
) -> Judged:
    """C7 from how the heads' effects on two texts correlate.

    Args:
        loss: of effects in log-loss: ``spearman`` and ``within`` (the same with the layer held fixed)
            with ``r`` and ``interval``, ``left_out`` (Spearman's least and largest value with any one
            head left out), ``reliability`` of both sides.
        score: of effects on the score: ``pearson`` with ``r`` and ``p``.
        heads: their number.
    """
    if loss is None or score is None or loss["spearman"]["r"] is None:
        return NOT_RUN
    found, within, (here, there) = loss["spearman"], loss["within"], loss["reliability"]
    low, high = ends(found["interval"])
    word = by_sign([(low, high)], 1)
    least, most = loss["left_out"]
    measurable = min(here, there) >= C7_RELIABILITY
    if not measurable or (word == "replicates" and least <= 0) or (word == "differs" and most >= 0):
        word = "undecided"
    pearson = score["pearson"]
    significant = pearson["r"] is not None and pearson["p"] < ALPHA
    if measurable and significant and pearson["r"] < 0:
        word = "differs"  # reversed in the paper's own measure
    error = math.sqrt(_SPEARMAN / (heads - 3)) if heads > 3 else math.inf
    paper = C7_PAPER[half]
    return Judged(
        word,
        None if pearson["r"] is None else bool(significant and pearson["r"] > 0),
        "In the score Pearson "
        + (
            "is not defined."
            if pearson["r"] is None
            else f"{pearson['r']:.2f}, p = {pearson['p']:.2g}."
        )
        + f" In log-loss Spearman {found['r']:.2f} [{low:.2f}, {high:.2f}], {least:.2f} to "
        f"{most:.2f} with one head left out; within layers {_interval(within)}. Reliability "
        f"{here:.2f} and {there:.2f}.",
        power_above(math.atanh(paper * math.sqrt(max(here, 0) * max(there, 0))), 0.0, error)
        if measurable
        else 0.0,
        f"a correlation of {math.tanh(detectable(error)):.2f}",
        estimates=(Estimate(found["r"], (low, high), 0.0),),
    )


def _interval(correlation: Mapping[str, Any]) -> str:
    if correlation["r"] is None:
        return "it is not defined"
    low, high = ends(correlation["interval"])
    return f"{correlation['r']:.2f} [{low:.2f}, {high:.2f}]"
