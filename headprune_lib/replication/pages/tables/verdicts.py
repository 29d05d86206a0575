"""The claims with both columns, the rows that they rest on, and the rules by which they are judged."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pandas as pd

from headprune_lib.replication.claims.claims import CLAIMS
from headprune_lib.replication.claims.verdict import Row, Verdict

__all__ = ["claims_table", "others_table", "power_table", "rows_table", "rules_table"]

_MET = {True: "met", False: "not met", None: ""}


def claims_table(verdicts: Iterable[Verdict]) -> pd.DataFrame:
    """One row a claim: what it says, the paper's criterion and ours, and what the word rests on."""
    titles = {claim.id: claim.title for claim in CLAIMS}
    return pd.DataFrame(
        [
            {
                "": verdict.claim,
                "claim": titles[verdict.claim],
                "paper's criterion": _met(verdict),
                "ours": verdict.word,
                "what counts": verdict.why,
            }
            for verdict in verdicts
        ]
    )


def _met(verdict: Verdict) -> str:
    met, read = verdict.met
    return f"met in {met} of {read}" if read else "not measured"


def rows_table(rows: Iterable[Row]) -> pd.DataFrame:
    """One row a result: where it was measured, the numbers, both columns, and whether it votes."""
    return pd.DataFrame(
        [
            {
                "claim": row.claim,
                "where": f"{as_in_the_paper(row.name)}: {row.setting}",
                "measured": row.judged.measured,
                "paper's criterion": _MET[row.judged.met],
                "ours": row.word,
                "votes": "yes" if row.votes else f"no: {row.silent}",
                "data": row.kind,
            }
            for row in rows
            if row.word != "not run"
        ]
    )


def others_table(rows: Iterable[Row]) -> pd.DataFrame:
    """One row a curve of the paper's own models that others measured: both columns, no vote."""
    return rows_table(rows).drop(columns=["votes", "data"], errors="ignore")


def power_table(rows: Iterable[Row]) -> pd.DataFrame:
    """One row a result: how often its rule would decide, and the smallest effect that it sees."""
    return pd.DataFrame(
        [
            {
                "claim": row.claim,
                "where": f"{as_in_the_paper(row.name)}: {row.setting}",
                "power": "" if row.judged.power is None else f"{row.judged.power:.2f}",
                "smallest effect": row.judged.smallest,
                "votes": "yes" if row.votes else "no",
            }
            for row in rows
            if row.word != "not run"
        ]
    )


def rules_table() -> pd.DataFrame:
    """One row a claim: the paper's criterion, our rule, and what power is computed for."""
    return pd.DataFrame(
        [
            {
                "": claim.id,
                "the paper's criterion": claim.criterion,
                "ours": claim.rule,
                "the truth that power is computed for": claim.effect,
            }
            for claim in CLAIMS
        ]
    )


def as_in_the_paper(artifact: str) -> str:
    """A table or figure as the paper writes it.

    >>> as_in_the_paper("figure3b")
    'Figure 3b'
    """
    return re.sub(r"^(figure|table)(?=\d)", lambda word: f"{word[1].title()} ", artifact)
