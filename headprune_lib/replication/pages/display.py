"""What a notebook's cells hand to their page: numbers for the prose, tables and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from IPython.display import HTML
from myst_nb import glue

from headprune_lib.replication.claims import evidence
from headprune_lib.replication.pages.tables.pages import NOT_MEASURED, as_html, verdict_table
from headprune_lib.replication.store.results import Result


def glue_all(numbers: Mapping[str, Any]) -> None:
    """Make every number available to the page's prose, under its key."""
    for key, value in numbers.items():
        glue(key, value, display=False)


def show(table: pd.DataFrame) -> HTML:
    """A table for a page; one without rows says that nothing was measured."""
    return HTML(f"<p>{NOT_MEASURED.capitalize()}.</p>" if table.empty else as_html(table))


def show_verdicts(result: Result) -> HTML:
    """The verdict on every claim that a result decides, beside what the paper found."""
    return show(verdict_table(evidence.verdicts_of(result)))
