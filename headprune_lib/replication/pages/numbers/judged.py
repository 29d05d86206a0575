"""What the rules say of a result, for a page's prose."""

from __future__ import annotations

from headprune_lib.replication.claims import evidence
from headprune_lib.replication.claims.verdict import Row
from headprune_lib.replication.pages.tables.pages import NOT_MEASURED
from headprune_lib.replication.store.results import Result


def row_of(result: Result, claim: str) -> Row | None:
    """The first row that a result gives of a claim; None where it gives none."""
    return next((row for row in evidence.rows_of(result) if row.claim == claim), None)


def word_of(result: Result | None, claim: str) -> str:
    """What a claim's rule says of a result."""
    row = result and row_of(result, claim)
    return row.word if row else NOT_MEASURED


def power_of(result: Result | None, claim: str) -> str:
    """The probability that a claim's rule decides on a result, were the paper's effect there."""
    row = result and row_of(result, claim)
    return f"{row.judged.power:.2f}" if row and row.judged.power is not None else NOT_MEASURED
