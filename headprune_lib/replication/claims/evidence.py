"""The rows and verdicts of the claims, from stored results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headprune_lib.replication import measurements, paper
from headprune_lib.replication.claims.others import others_rows
from headprune_lib.replication.claims.rules import CLAIMS, UNTRAINED, Claim
from headprune_lib.replication.claims.verdict import NOT_RUN, Row, Verdict, combine
from headprune_lib.replication.store import Key, Result
from headprune_lib.replication.titles import setting

FIXED = "2026-11-22T21:40:00+00:00"
"""When the bounds were fixed. Results measured earlier are exploratory."""
# Measured after the bounds were fixed, and after Figure 5 of the same trainings had shown the outcome.
PARTLY_KNOWN = {("C3", "deen", "post-norm-6"), ("C4", "deen", "post-norm-6")}
_HELD = "-held"
NEW_PAIRS = "the new pairs of the task count"


def rows_of(result: Result, root: Path | None = None) -> list[Row]:
    """The rows of a result, in order of claims; none where no claim rests on it.

    Args:
        root: the folder of results, where further trainings are; the project's own if not given.
    """
    return [row for claim in CLAIMS.values() for row in _rows(claim, result, root)]


def judge(result: Result, claim: str) -> Row | None:
    """The row of a result on a claim: ``word`` by our rule, ``counts``, ``judged.power``."""
    return next((row for row in rows_of(result) if row.claim == claim), None)


def all_verdicts(root: Path | None = None) -> list[Verdict]:
    """The verdicts on C1 to C8 from all stored results, both halves of the paper together.

    Args:
        root: the folder of results; the project's own if not given.
    """
    stored = {
        name: measurements.found(name, root=root)
        for name in dict.fromkeys(claim.measurement for claim in CLAIMS.values())
    }
    others = others_rows()
    return [
        combine(
            [row for result in stored[claim.measurement] for row in _rows(claim, result, root)]
            or [_not_run(claim)],
            [row for row in others if row.claim == claim.id],
        )
        for claim in CLAIMS.values()
    ]


def _not_run(claim: Claim) -> Row:
    half = claim.halves[0]
    return Row(claim.id, half, paper.name_of(claim.measurement, half, paper.MAIN), "", NOT_RUN)


def _rows(claim: Claim, result: Result, root: Path | None) -> list[Row]:
    half = measurements.half_of(result)
    if result.measurement != claim.measurement or half not in claim.halves:
        return []
    partly = (claim.id, result.task, result.model) in PARTLY_KNOWN
    held = Key(result.measurement, f"{result.task}{_HELD}", result.model).path(root).exists()
    return [
        Row(
            claim.id,
            half,
            paper.name_of(claim.measurement, half, result.task),
            ", ".join(filter(None, ("" if judged.aside == UNTRAINED else setting(result), label))),
            replace(judged, aside=NEW_PAIRS) if held else judged,
            "partly" if partly else _first_date(result) < FIXED,
            f"{result.model} {result.task}" if half == "translation" else result.model,
        )
        for label, judged in claim.judge(result, root).items()
        if judged.word != "not run"  # a curve without the one-by-one order says nothing of C8
    ]


def _first_date(result: Result) -> str:
    """When a result's first part was measured: a part seen earlier makes the result exploratory."""
    dates = [part.provenance for part in result.parts.values()]
    return min(date.get("first_measured", date["date"]) for date in dates)
