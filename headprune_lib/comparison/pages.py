"""Tables and numbers as a page shows them."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from headprune_lib.claims import CLAIMS
from headprune_lib.verdicts import Verdict


def verdict_table(judged: list[Verdict]) -> pd.DataFrame:
    """One row a verdict: claim, what the paper found, what we measured, the word.

    Where a verdict rests on several, each of these has a row of its own below it.
    """
    claims, rows = {claim.id: claim for claim in CLAIMS}, []
    for verdict in judged:
        claim = claims[verdict.claim]
        rows.append({
            "claim": f"{claim.id}. {claim.title}",
            "paper": f"§{claim.section}: {claim.paper_value}",
            "measured on": "" if verdict.rows else _where(verdict),
            "here": verdict.measured,
            "verdict": verdict.word,
        })
        rows += [{"claim": "", "paper": "", "measured on": _where(row), "here": row.measured,
                  "verdict": row.word} for part in verdict.rows for row in part.rows or (part,)]
    return pd.DataFrame(rows)


def _where(verdict: Verdict) -> str:
    return "" if verdict.word == "not run" else f"{verdict.half}: {', '.join(verdict.evidence)}"


def as_html(table: pd.DataFrame) -> str:
    """A table for a page; a column ``verdict`` is shown as a coloured word."""
    shown = table.copy()
    for column in shown.columns:
        if column == "verdict":
            shown[column] = [
                f'<span class="verdict verdict-{word.replace(" ", "-")}">{word}</span>'
                for word in shown[column]]
        else:
            shown[column] = [html.escape(cell) if isinstance(cell, str) else cell
                             for cell in shown[column]]
    return shown.to_html(index=False, escape=False, border=0)


def points(delta: float, interval: Sequence[float] | None = None) -> str:
    """A change of accuracy in percentage points, with its interval.

    >>> points(-0.0123, [-0.02, 0.001])
    '−1.23 [−2.00, +0.10]'
    """
    return signed(100 * delta, interval and [100 * end for end in interval])


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


def orders_table(values: Mapping[str, Any], area: str, shown: Callable[..., str]) -> pd.DataFrame:
    """One row an order of removal: share that goes at each tolerance, and area under the curve.

    Args:
        values: those of a pruning curve's result.
        area: header of the last column, the importance order's area minus this one's.
        shown: :func:`points` or :func:`signed`.
    """
    rows = []
    for name, found in values["prunable"].items():
        row = {"order": name, "runs": len(values["curves"][name]["runs"])}
        for tolerance, share in found.items():
            low, high = share["interval"]
            row[f"goes at {tolerance} loss"] = f"{share['share']:.0%} [{low:.0%}, {high:.0%}]"
        difference = values.get("area_differences", {}).get(name)
        row[area] = shown(difference["difference"], difference["interval"]) if difference else ""
        rows.append(row)
    return pd.DataFrame(rows)
