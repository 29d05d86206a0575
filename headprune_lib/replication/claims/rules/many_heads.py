"""C3, C4 and C8: heads removed together, of all kinds or of one, in one order or another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def together(kept: Mapping[str, Any] | None) -> Judged:
    """C3 from what is kept of the score above chance at the paper's share of removed heads.

    Args:
        kept: ``share`` removed, ``kept`` and its ``interval``.
    """
    if kept is None:
        return NOT_RUN
    if not defined(kept["kept"], *kept["interval"]):
        return NOTHING_TO_KEEP
    low, high = ends(kept["interval"])
    error = standard_error((low, high))
    word = "replicates" if low >= C3_KEPT else "differs" if high < C3_KEPT else "inconclusive"
    return Judged(
        word,
        kept["kept"] >= C3_KEPT,
        f"With {kept['share']:.0%} removed, {kept['kept']:.1%} [{low:.1%}, {high:.1%}] of the score "
        "above chance is kept.",
        power_above(1.0, C3_KEPT, error),
        f"{detectable(error):.1%} more or less than {C3_KEPT:.0%}",
        estimates=(Estimate(kept["kept"], (low, high), C3_KEPT),),
    )


def kinds(
    areas: Mapping[str, Mapping[str, Any]] | None, left: Mapping[str, float] | None
) -> Judged:
    """C4 from areas of BLEU kept along the curves of one kind each.

    Args:
        areas: ``enc-enc`` and ``dec-dec`` -> ``difference`` (enc-dec minus that kind) and
            ``interval``, in shares of the unpruned model's BLEU.
        left: kind -> share of BLEU kept with C4_PAPER_LEFT of its heads left.
    """
    if areas is None or left is None:
        return NOT_RUN
    found = [areas[other] for other in ("enc-enc", "dec-dec")]
    if not defined(*left.values(), *(end for one in found for end in one["interval"])):
        return NOTHING_TO_KEEP
    errors = [standard_error(one["interval"]) for one in found]
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
                power_above(-effect, 0.0, error)
                for effect, error in zip(C4_PAPER_EFFECT, errors, strict=True)
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
    uncut: float,
    half: str,
) -> Judged:
    """C8 from areas over 0-50%, importance minus the one-by-one order chosen on other data.

    Args:
        area: ``difference`` and ``interval`` in the metric's own unit.
        above: for each step of the whole curve, whether importance is at least as good as the
            paper's own one-by-one order, which is chosen on the test set; None if not measured.
        uncut: the unpruned model's score above chance.
    """
    if area is None:
        return NOT_RUN
    if uncut <= 0:
        return NOTHING_TO_KEEP
    error = standard_error(ends(area["interval"])) / uncut
    effect = C8_PAPER_EFFECT[half]
    relative = {
        "difference": area["difference"] / uncut,
        "interval": [end / uncut for end in area["interval"]],
    }
    told = (
        f"Mean over 0-{C8_UP_TO:.0%} removed, importance minus one-by-one: "
        f"{_with_interval(relative)} of the score above chance."
    )
    if above is not None:
        told += f" Above the paper's own one-by-one order at {sum(above)} of {len(above)} steps."
    return Judged(
        by_sign([area["interval"]], 1),
        None if above is None else 2 * sum(above) > len(above),
        told,
        power_above(effect, 0.0, error),
        f"{detectable(error):.1%} of the score above chance",
        estimates=(Estimate(relative["difference"], ends(relative["interval"]), 0.0),),
    )


def _with_interval(found: Mapping[str, Any]) -> str:
    low, high = ends(found["interval"])
    return f"{found['difference']:+.3f} [{low:+.3f}, {high:+.3f}]"
