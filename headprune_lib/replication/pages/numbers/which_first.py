"""The numbers in the prose of the page on orders of removal by every criterion."""

from __future__ import annotations

from collections.abc import Mapping

from headprune_lib.replication.claims.contrasts import decide
from headprune_lib.replication.measurements.contrasts import COMBINED
from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.tables.pages import NOT_MEASURED, estimate, points
from headprune_lib.replication.store import Result
from headprune_lib.replication.titles import listed

_KEYS = {
    "combined against importance": "combined",
    "entropy against random": "entropy",
    "scored again against once": "rescored",
    "not normalised against normalised": "unnormalised",
}


def which_first(found: Mapping[str, Result]) -> Numbers:
    """Contrasts over everything that is measured, in points of the share kept, and their words.

    Args:
        found: name of task and model -> result of ``which_first``.
    """
    numbers: Numbers = {"models": "; ".join(found)}
    for one in decide({name: result.values for name, result in found.items()}):
        key = _KEYS[one.name]
        run = one.word != "not run"
        numbers |= {
            f"{key}_word": one.word,
            key: points(one.value, one.interval) if run else NOT_MEASURED,
        }
        if one.control is not None:
            numbers["control"] = points(one.control[0], one.control[1:])
        if key == "rescored":
            numbers["rescored_n"] = len(one.tasks)
    for order in ("importance", "importance unnormalised", "entropy", "random"):
        shares = [result.values["orders"][order]["area"] for result in found.values()]
        numbers[f"kept_{order.replace(' ', '_')}"] = listed(
            [estimate(one["value"], one["interval"], ".0%") for one in shares]
        )
    numbers["alphas"] = listed(
        [
            said.removeprefix("alpha=")
            for result in found.values()
            for said in result.values["orders"][COMBINED]["said"]
        ]
    )
    own = [one.values["contrasts"] for one in found.values() if one.model == "pre-norm"]
    combined = own[0].get("combined against importance") if own else None
    numbers["pre_norm_combined"] = (
        points(combined["area"]["value"], combined["area"]["interval"])
        if combined
        else NOT_MEASURED
    )
    return numbers
