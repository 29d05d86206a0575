"""Tables and numbers as a page shows them."""

from __future__ import annotations

import html

import pandas as pd

from headprune_lib.claims import CLAIMS
from headprune_lib.verdicts import Verdict


def verdict_table(judged: list[Verdict]) -> pd.DataFrame:
    """One row a verdict: claim, where, what the paper found, what we measured, the word."""
    claims = {claim.id: claim for claim in CLAIMS}
    return pd.DataFrame([
        {
            "claim": f"{v.claim}. {claims[v.claim].title}",
            "paper": f"§{claims[v.claim].section}: {claims[v.claim].paper_value}",
            "here": v.measured,
            "verdict": v.word,
        }
        for v in judged
    ])


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


def points(delta: float, interval: list[float] | None = None) -> str:
    """A change of accuracy in percentage points, with its interval.

    >>> points(-0.0123, [-0.02, 0.001])
    '−1.23 [−2.00, +0.10]'
    """
    def signed(value: float) -> str:
        return f"{100 * value:+.2f}".replace("-", "−")

    return signed(delta) + (f" [{signed(interval[0])}, {signed(interval[1])}]" if interval else "")
