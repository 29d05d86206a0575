"""The numbers in the prose of the page on training after the cut."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from headprune_lib.replication.claims.recovery import ORDER, SHARE, WAY, decide
from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.tables.pages import NOT_MEASURED, estimate, points
from headprune_lib.replication.store import Result

_FURTHER = (0.2, 0.6)
_STATES = {
    "random_before": ("random", SHARE, "before"),
    "random_after": ("random", SHARE, "after"),
    "uncut_after": ("uncut", 0.0, "after"),
}


def recovery(result: Result) -> Numbers:
    """The answer by the rule, and what it is read off: accuracies and leads, all weights trained.

    The leads with fewer and with more heads removed, and those after LoRA, stand beside it where they
    were measured.
    """
    values = result.values
    decisive = lead_of(values, ORDER, SHARE)
    numbers: Numbers = {
        "word": decide(values).word,
        "lead_before": _told(decisive, "before"),
        "lead_after": _told(decisive, "after"),
        "n_examples": f"{result.n_examples:,}",
        "whole": f"{values['whole']:.1%}",
    }
    for name, (order, share, when) in _STATES.items():
        found = row_of(values, order, share)
        numbers[name] = (
            estimate(found[when]["score"], found[when]["interval"], ".1%")
            if found
            else NOT_MEASURED
        )
    for share, when in product(_FURTHER, ("before", "after")):
        numbers[f"lead_{100 * share:.0f}_{when}"] = _told(lead_of(values, ORDER, share), when)
    numbers["lead_lora"] = _told(lead_of(values, ORDER, SHARE, "LoRA"), "after")
    for share in _FURTHER:
        lead = lead_of(values, ORDER, share, "LoRA")
        numbers[f"lead_lora_{100 * share:.0f}"] = _told(lead, "after")
    return numbers


def row_of(
    values: Mapping[str, Any], order: str, share: float, way: str = WAY
) -> Mapping[str, Any] | None:
    """What is stored of an order at a share; None where it was not measured."""
    return _first(values["recovered"], order, share, way)


def lead_of(
    values: Mapping[str, Any], order: str, share: float, way: str = WAY
) -> Mapping[str, Any] | None:
    """An order's lead over random ones at a share; None where either was not measured."""
    return _first(values["leads"], order, share, way)


def _first(rows: list[Mapping[str, Any]], *asked: object) -> Mapping[str, Any] | None:
    found = (one for one in rows if (one["order"], one["share"], one["way"]) == asked)
    return next(found, None)


def _told(lead: Mapping[str, Any] | None, when: str) -> str:
    return points(lead[when]["difference"], lead[when]["interval"]) if lead else NOT_MEASURED
