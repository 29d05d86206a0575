"""What a notebook's cells hand to their page: numbers for the prose, tables and verdicts."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import pandas as pd
from IPython.display import HTML
from myst_nb import glue

from headprune_lib.replication.claims import evidence
from headprune_lib.replication.pages.tables.pages import NOT_MEASURED, as_html
from headprune_lib.replication.pages.tables.verdicts import rows_table
from headprune_lib.replication.store.results import Result


def glue_all(numbers: Mapping[str, Any]) -> None:
    """Make every number available to the page's prose, under its key."""
    for key, value in numbers.items():
        glue(key, value, display=False)


def show(table: pd.DataFrame) -> HTML:
    """A table for a page; one without rows says that nothing was measured."""
    return HTML(f"<p>{NOT_MEASURED.capitalize()}.</p>" if table.empty else as_html(table))


def paragraph(text: str) -> HTML:
    """Words for a page that are kept in the code, such as a rule."""
    return HTML(f"<p>{html.escape(text)}</p>")


def show_verdicts(*results: Result) -> HTML:
    """What both columns say of every claim that the results bear on."""
    return show(rows_table(row for result in results for row in evidence.rows_of(result)))
