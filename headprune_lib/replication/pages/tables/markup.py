"""Tables as HTML: caption, number and anchor, headers that say what they head, a file to take away."""

from __future__ import annotations

import base64
import html
import re
from typing import Any

import pandas as pd

from headprune_lib.replication.claims.rules import CLAIMS
from headprune_lib.replication.claims.verdict import WORDS

__all__ = ["Markup", "anchor", "as_html"]

_INTERVAL = re.compile(r"\[[^\]]*\]")
_LONG = 60  # letters: what is longer reads from the left, as text does


class Markup(str):
    """A cell that is HTML already."""


def anchor(name: str) -> str:
    """The anchor of a numbered table or figure.

    >>> anchor("Table S1"), anchor("Figure 3b")
    ('table-s1', 'figure-3b')
    """
    return re.sub(r"\W+", "-", name.lower()).strip("-")


def as_html(table: pd.DataFrame, name: str = "", caption: str = "") -> str:
    """A table for a page; verdicts are coloured words, and claims stand out.

    The first column heads the rows. Where ``attrs["prose"]`` of a table is true, or a cell is long,
    columns are set as text: to the left, and broken into lines. A table with a name has a caption,
    an anchor and a link to its cells as CSV; readers can sort it where scripts run.

    >>> as_html(pd.DataFrame({"order": ["random"], 0.5: [2517.1]})).count("2517.1")
    1
    """
    shown = emphasise_claims(
        table.set_axis([str(column) for column in table], axis=1).assign(
            **{str(column): list(map(_cell, table[column])) for column in table}
        ),
        "<strong>",
        "</strong>",
    )
    long = any(isinstance(cell, str) and len(cell) > _LONG for cell in table.to_numpy().ravel())
    prose = long or table.attrs.get("prose", False)
    first = shown.columns[0]
    shown = shown.set_index(first).rename_axis(index=None, columns=first or "no.")
    classes = ["sortable", *(["prose"] if prose else [])]
    markup = shown.to_html(escape=False, border=0, classes=classes)
    return framed(_scoped(markup), name, caption, table)


def framed(markup: str, name: str, caption: str, values: pd.DataFrame) -> str:
    """A ``<table>`` with its caption, in a frame that scrolls sideways where it is too narrow."""
    if not name:
        return f'<div class="table-frame">{markup}</div>'
    words = (
        f'<caption><span class="words"><strong>{name}.</strong> {caption} '
        f"{_csv_link(name, values)}</span></caption>"
    )
    start, rest = re.split(r"(?<=>)", markup, maxsplit=1)
    return f'<div class="table-frame" id="{anchor(name)}">{start}{words}{rest}</div>'


def _csv_link(name: str, values: pd.DataFrame) -> str:
    content = base64.b64encode(values.to_csv(index=False).encode()).decode()
    return (
        f'<a class="csv" download="{anchor(name)}.csv" href="data:text/csv;base64,{content}">'
        f"CSV<span class='heard'> of {name}</span></a>"
    )


def _scoped(markup: str) -> str:
    head, body = markup.split("</thead>")
    return (
        head.replace("<th>", '<th scope="col">')
        + "</thead>"
        + body.replace("<th>", '<th scope="row">')
    )


def _cell(cell: Any) -> Any:
    if isinstance(cell, Markup):
        return cell
    if cell in WORDS:
        return f'<span class="verdict verdict-{cell.replace(" ", "-")}">{cell}</span>'
    if not isinstance(cell, str):
        return cell
    # an interval stays on one line
    return _INTERVAL.sub(
        lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), html.escape(cell)
    )


def emphasise_claims(table: pd.DataFrame, start: str, end: str) -> pd.DataFrame:
    """A table in whose first column the claims' own numbers stand between two marks."""
    first, shown = table.columns[:1], table.copy()
    ids = {claim.id for claim in CLAIMS}
    for column in first:
        shown[column] = [f"{start}{cell}{end}" if cell in ids else cell for cell in shown[column]]
    return shown
