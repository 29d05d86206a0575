"""C3, C4 and C8: heads removed together, of all kinds or of one, in one order or another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headprune_lib.replication.claims.verdict import (
    NOT_RUN,
    NOTHING_TO_KEEP,
    Estimate,
    Judged,
    by_sign,
    defined,
    ends,
)
from headprune_lib.replication.stats import all_of, detectable, power_above, standard_error
from headprune_lib.replication.stats.bounds import C3_KEPT, C4_UP_TO, C8_UP_TO

# C4: of the paper's Figure 4, 30 of 36 BLEU with a fifth of either other kind's heads left ...
C4_PAPER_LEFT, C4_PAPER_KEPT = 0.2, 0.83
# ... and by others on IWSLT the area of BLEU kept, enc-dec minus enc-enc and minus dec-dec.
C4_PAPER_EFFECT = (-0.261, -0.285)
# C8: area over 0-50%, importance minus one-by-one, in shares of the score above chance, as others
# measured it on MNLI and on IWSLT; the paper gives curves alone.
C8_PAPER_EFFECT = {"encoder": 0.033, "translation": 0.0069}


def together(kept: Mapping[str, Any] | None, true: float = 1.0) -> Judged:
    """C3 from what is kept of the score above chance at the paper's share of removed heads.

    Args:
        kept: ``share`` removed, ``kept`` and its ``interval`` (with ``error`` and ``freedom``, a t
            interval), and ``raw``, the share of the score itself.
        true: what BERT-base keeps there as others measured it, for the power.
    """
    if kept is None:
        return NOT_RUN
    met = kept["raw"] >= C3_KEPT
    if not defined(kept["kept"], *kept["interval"]):
        return replace(NOTHING_TO_KEEP, met=met)
    low, high = ends(kept["interval"])
    error = kept.get("error") or standard_error((low, high))
    word = "replicates" if low >= C3_KEPT else "differs" if high < C3_KEPT else "undecided"
    return Judged(
        word,
        met,
        f"With {kept['share']:.0%} removed, {kept['kept']:.1%} [{low:.1%}, {high:.1%}] of the score "
        f"above chance is kept; {kept['raw']:.1%} of the score.",
        power_above(true, C3_KEPT, error, kept.get("freedom") or math.inf),
        f"{detectable(error):.1%} more or less than {C3_KEPT:.0%}",
        estimates=(Estimate(kept["kept"], (low, high), C3_KEPT),),
        trainings=kept.get("trainings", 1),
    )


def kinds(
    areas: Mapping[str, Mapping[str, Any]] | None, left: Mapping[str, float] | None
) -> Judged:
    """C4 from areas of BLEU kept along the curves of one kind each.

    Args:
        areas: ``enc-enc`` and ``dec-dec`` -> ``difference`` (enc-dec minus that kind) and
            ``interval``, in shares of the unpruned model's BLEU; ``error`` and ``freedom`` of a t
            interval.
        left: kind -> share of BLEU kept with C4_PAPER_LEFT of its heads left.
    """
    if areas is None or left is None:
        return NOT_RUN
    found = [areas[other] for other in ("enc-enc", "dec-dec")]
    if not defined(*left.values(), *(end for one in found for end in one["interval"])):
        return NOTHING_TO_KEEP
    errors = [one.get("error") or standard_error(one["interval"]) for one in found]
    freedoms = [one.get("freedom") or math.inf for one in found]
    met = left["enc-dec"] < 0.5 and min(left["enc-enc"], left["dec-dec"]) >= C4_PAPER_KEPT
    return Judged(
        by_sign([one["interval"] for one in found], -1),
        met,
        f"Mean share of BLEU kept over 0-{C4_UP_TO:.0%}: "
        + "; ".join(
            f"enc-dec minus {other} {_with_interval(areas[other])}"
            for other in ("enc-enc", "dec-dec")
        )
        + f". With {C4_PAPER_LEFT:.0%} of a kind left: "
        + ", ".join(f"{kind} {share:.0%}" for kind, share in left.items())
        + ".",
        all_of(
            [
                power_above(-effect, 0.0, error, freedom)
                for effect, error, freedom in zip(C4_PAPER_EFFECT, errors, freedoms, strict=True)
            ]
        ),
        f"a difference of {detectable(max(errors)):.3f} in mean share of BLEU kept",
        estimates=tuple(
            Estimate(areas[other]["difference"], ends(areas[other]["interval"]), 0.0, f"−{other}")
            for other in ("enc-enc", "dec-dec")
        ),
    )


def orders(
    area: Mapping[str, Any] | None,
    above: Sequence[bool] | None,
    half: str,
) -> Judged:
    """C8 from areas over 0-50%, importance minus the one-by-one order chosen on other data.

    Args:
        area: ``difference`` and ``interval`` in shares of the unpruned model's score above chance,
            with ``error`` and ``freedom`` of a t interval; of a model without such a score, None.
        above: for each step of the whole curve, whether importance is at least as good as the
            paper's own one-by-one order, which is chosen on the test set; None if not measured.
    """
    if area is None:
        return NOT_RUN
    if not defined(area["difference"], *area["interval"]):
        return NOTHING_TO_KEEP
    error = area.get("error") or standard_error(ends(area["interval"]))
    told = (
        f"Mean over 0-{C8_UP_TO:.0%} removed, importance minus one-by-one: "
        f"{_with_interval(area)} of the score above chance."
    )
    if above is not None:
        told += f" Above the paper's own one-by-one order at {sum(above)} of {len(above)} steps."
    return Judged(
        by_sign([area["interval"]], 1),
        None if above is None else 2 * sum(above) > len(above),
        told,
        power_above(C8_PAPER_EFFECT[half], 0.0, error, area.get("freedom") or math.inf),
        f"{detectable(error):.1%} of the score above chance",
        estimates=(Estimate(area["difference"], ends(area["interval"]), 0.0),),
        trainings=area.get("trainings", 1),
    )


def _with_interval(found: Mapping[str, Any]) -> str:
    low, high = ends(found["interval"])
    return f"{found['difference']:+.3f} [{low:+.3f}, {high:+.3f}]"
