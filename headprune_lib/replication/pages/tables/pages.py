"""Tables and numbers as a page shows them."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from headprune_lib.replication.claims.claims import CLAIMS
from headprune_lib.replication.claims.verdict import Verdict

__all__ = [
    "NOT_MEASURED",
    "as_html",
    "estimate",
    "number",
    "points",
    "shown_orders",
    "verdict_table",
]


def verdict_table(judged: list[Verdict]) -> pd.DataFrame:
    """For each claim a row with its verdict, one with what the paper found, and one a measurement.

    Columns: ``claim`` (its number, or where it was measured), ``found`` (in a claim's own row what
    it says), and ``verdict``.
    """
    claims, rows = {claim.id: claim for claim in CLAIMS}, []
    for verdict in judged:
        claim = claims[verdict.claim]
        rows.append((claim.id, claim.title, verdict.word))
        rows.append((f"the paper, §{claim.section}", claim.paper_value, ""))
        parts = verdict.rows or (verdict,)
        rows += [
            (
                f"{part.half}: {', '.join(map(_as_in_the_paper, part.evidence))}",
                part.measured,
                part.word if verdict.rows else "",
            )
            for part in parts
            if part.word != "not run"
        ]
    return pd.DataFrame(rows, columns=["claim", "found", "verdict"])


def _as_in_the_paper(artifact: str) -> str:
    return re.sub(r"^(figure|table)(?=\d)", lambda word: f"{word[1].title()} ", artifact)


NOT_MEASURED = "not measured"
"""What stands in a number's place where there is no result."""

_LONG = 60  # letters: what is longer reads from the left, as text does


def as_html(table: pd.DataFrame) -> str:
    """A table for a page; verdicts are coloured words, and claims stand out."""
    shown = table.copy()
    for column in shown.columns:
        if column == "verdict":
            shown[column] = [
                f'<span class="verdict verdict-{word.replace(" ", "-")}">{word}</span>'
                if word
                else ""
                for word in shown[column]
            ]
        else:
            shown[column] = [
                html.escape(cell) if isinstance(cell, str) else cell for cell in shown[column]
            ]
    prose = any(isinstance(cell, str) and len(cell) > _LONG for cell in table.to_numpy().ravel())
    return emphasise_claims(shown, "<strong>", "</strong>").to_html(
        index=False, escape=False, border=0, classes="prose" if prose else None
    )


def emphasise_claims(table: pd.DataFrame, start: str, end: str) -> pd.DataFrame:
    """A table whose rows of the claims themselves, where it has any, stand between two marks."""
    if not {"claim", "found"} <= set(table.columns):
        return table
    own, shown = table["claim"].isin([claim.id for claim in CLAIMS]), table.copy()
    shown.loc[own, ["claim", "found"]] = start + shown.loc[own, ["claim", "found"]] + end
    return shown


def number(value: float | None, form: str) -> str:
    """A number in a format, or that it was not measured.

    >>> number(0.256, ".0%"), number(None, ".0%")
    ('26%', 'not measured')
    """
    return NOT_MEASURED if value is None else f"{value:{form}}"


def points(delta: float, interval: Sequence[float] | None = None) -> str:
    """A change of accuracy in percentage points, with its interval.

    >>> points(-0.0123, [-0.02, 0.001])
    '−1.23 [−2.00, +0.10]'
    """
    return signed(100 * delta, interval and [100 * end for end in interval])


def estimate(value: float | None, interval: Sequence[float], form: str = ".2f") -> str:
    """A value and its interval, or that it was not measured.

    >>> estimate(0.123, [0.1, 0.2]), estimate(0.123, [0.1, 0.2], ".0%")
    ('0.12 [0.10, 0.20]', '12% [10%, 20%]')
    """
    if value is None:
        return NOT_MEASURED
    low, high = interval
    return f"{value:{form}} [{low:{form}}, {high:{form}}]"


def p_text(p: float) -> str:
    """A p-value to three decimals, as papers print it.

    >>> p_text(0.0474), p_text(2e-5)
    ('0.047', '< 0.001')
    """
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def signed(change: float, interval: Sequence[float] | None = None) -> str:
    """A change in its own unit, with its interval.

    >>> signed(-0.123, [-0.2, 0.01])
    '−0.12 [−0.20, +0.01]'
    """
    value, *ends = (f"{number:+.2f}".replace("-", "−") for number in (change, *(interval or ())))
    return f"{value} [{', '.join(ends)}]" if ends else value


def shown_orders(values: Mapping[str, Any]) -> list[str]:
    """The orders of a pruning curve's result, the main fine-tuning apart only if there are others."""
    single = len(values["curves"]["importance"]["runs"]) == 1
    return [name for name in values["prunable"] if not (single and name == "importance main")]


def orders_table(values: Mapping[str, Any], area: str, shown: Callable[..., str]) -> pd.DataFrame:
    """One row an order of removal: share that goes at each tolerance, and area under the curve.

    Args:
        values: those of a pruning curve's result.
        area: header of the last column, the importance order's area minus this one's.
        shown: :func:`points` or :func:`signed`.
    """
    rows = []
    for name in shown_orders(values):
        row = {"order": name, "runs": len(values["curves"][name]["runs"])}
        for tolerance, share in values["prunable"][name].items():
            row[f"goes at {tolerance} loss"] = estimate(share["share"], share["interval"], ".0%")
        difference = values.get("area_differences", {}).get(name)
        row[area] = shown(difference["difference"], difference["interval"]) if difference else ""
        rows.append(row)
    return pd.DataFrame(rows)
