"""The numbers in the prose of the page on training after the cut."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headprune_lib.replication.claims.questions import ORDER, SHARE, WAY, decide_recovery
from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.tables.pages import NOT_MEASURED, points
from headprune_lib.replication.pages.tables.recovery import score_text
from headprune_lib.replication.store import Result

_FURTHER = (0.2, 0.6)
_LEADS = {"lead": SHARE, **{f"lead_{100 * share:.0f}": share for share in _FURTHER}}
_STATES = {
    "random_before": ("random", SHARE, "before"),
    "random_after": ("random", SHARE, "after"),
    "uncut_after": ("uncut", 0.0, "after"),
}


def recovery(result: Result, translated: Result | None = None) -> Numbers:
    """The answer by the rule, and what it is read off: accuracies and leads, all weights trained.

    The leads with fewer and with more heads removed, and those after LoRA, stand beside it where they
    were measured.

    Args:
        translated: the same of a translator, whose numbers begin with ``bleu_``; not measured if None.
    """
    values = result.values
    numbers: Numbers = {
        **_answer(values, result.metric),
        "n_examples": f"{result.n_examples:,}",
        "whole": f"{values['whole']:.1%}",
        "lead_lora": _told(lead_of(values, ORDER, SHARE, "LoRA"), "after"),
    }
    for share in _FURTHER:
        lead = lead_of(values, ORDER, share, "LoRA")
        numbers[f"lead_lora_{100 * share:.0f}"] = _told(lead, "after")
    other = translated.values if translated else {"recovered": [], "leads": []}
    numbers |= {f"bleu_{name}": value for name, value in _answer(other, "BLEU").items()}
    numbers["n_verses"] = f"{translated.n_examples:,}" if translated else NOT_MEASURED
    return numbers


def _answer(values: Mapping[str, Any], metric: str) -> Numbers:
    numbers: Numbers = {"word": decide_recovery(values).word}
    for name, (order, share, when) in _STATES.items():
        found = row_of(values, order, share)
        numbers[name] = score_text(found[when], metric) if found else NOT_MEASURED
    for name, share in _LEADS.items():
        for when in ("before", "after"):
            numbers[f"{name}_{when}"] = _told(lead_of(values, ORDER, share), when)
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
