"""The claims with both columns, the rows that they rest on, and the rules by which they are judged."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pandas as pd

from headprune_lib.replication.claims.claims import CLAIMS
from headprune_lib.replication.claims.verdict import Row, Verdict
from headprune_lib.replication.paths import reference_root

__all__ = [
    "changed_table",
    "claims_table",
    "others_table",
    "power_table",
    "rows_table",
    "rules_table",
]

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
    """One row a result: where it was measured, the numbers, both columns, and whether it counts."""
    return pd.DataFrame(
        [
            {
                "claim": row.claim,
                "where": f"{as_in_the_paper(row.name)}: {row.setting}",
                "measured": row.judged.measured,
                "paper's criterion": _MET[row.judged.met],
                "ours": row.word,
                "counts": "yes" if row.counts else f"no: {row.why_not}",
                "data": row.kind,
            }
            for row in rows
            if row.word != "not run"
        ]
    )


def others_table(rows: Iterable[Row]) -> pd.DataFrame:
    """One row a curve of the paper's own models that others measured: both columns; none counts."""
    return rows_table(rows).drop(columns=["counts", "data"], errors="ignore")


def changed_table(verdicts: Iterable[Verdict]) -> pd.DataFrame:
    """Every word by the second rules, and by the third: of each claim, then of each of its results.

    A dash is a result that there was not, or that counts with another.
    """
    before = pd.read_csv(reference_root() / "second_rules.csv", keep_default_na=False)
    old = {
        (line.claim, line.name_, line.setting): (line.word, line.counted)
        for line in before.rename(columns={"name": "name_"}).itertuples()
    }
    lines = []
    for verdict in verdicts:
        new = {(verdict.claim, "", ""): (verdict.word, "")} | {
            (row.claim, row.name, row.setting): (row.word, "yes" if row.counts else "no")
            for row in verdict.rows
        }
        keys = dict.fromkeys([*new, *(key for key in old if key[0] == verdict.claim)])
        for claim, name, setting in keys:
            key = claim, name, setting
            was, is_now = old.get(key, ("–", "–")), new.get(key, ("–", "–"))
            where = f"{as_in_the_paper(name)}: {setting}" if name else "the claim"
            lines.append([claim, where, was[0], was[1], is_now[0], is_now[1]])
    columns = ["claim", "where", "second rules", "counted", "third rules", "counts"]
    return pd.DataFrame(lines, columns=columns)


def power_table(rows: Iterable[Row]) -> pd.DataFrame:
    """One row a result: how often its rule would decide, and the smallest effect that it sees."""
    return pd.DataFrame(
        [
            {
                "claim": row.claim,
                "where": f"{as_in_the_paper(row.name)}: {row.setting}",
                "power": "" if row.judged.power is None else f"{row.judged.power:.2f}",
                "smallest effect": row.judged.smallest,
                "counts": "yes" if row.counts else "no",
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
