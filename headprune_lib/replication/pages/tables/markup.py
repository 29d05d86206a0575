"""Text that pages print about rules, and tables and grids as HTML."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from IPython.display import HTML

from headprune_lib.replication.claims.rules import CLAIMS
from headprune_lib.replication.claims.verdict import WORDS, Judged, defined
from headprune_lib.replication.formatting import NOT_MEASURED, estimate, with_minus

NOT_ABOVE_CHANCE = "not above chance"
"""Shown in place of the share kept if the uncut score is not above chance."""


def number(value: float | None, form: str) -> str:
    """Format a number, or say that it was not measured.

    >>> number(0.256, ".0%"), number(None, ".0%")
    ('26%', 'not measured')
    """
    return NOT_MEASURED if value is None else f"{value:{form}}"


def kept_text(found: Mapping[str, Any] | None) -> str:
    """Format the share of the score above chance that is kept, ``kept`` with its ``interval``.

    >>> kept_text({"kept": 0.955, "interval": [0.92, 0.99]}), kept_text(None)
    ('95.5% [92.0%, 99.0%]', 'not measured')
    >>> kept_text({"kept": None, "interval": [None, None]})
    'not above chance'
    """
    if found is None:
        return NOT_MEASURED
    if not defined(found["kept"], *found["interval"]):
        return NOT_ABOVE_CHANCE
    return estimate(found["kept"], found["interval"], ".1%")


def judged_text(judged: Judged, form: str) -> str:
    """The one number that a rule judges, with its interval."""
    if judged.word == "not run":
        return NOT_MEASURED
    if not judged.estimates:
        return NOT_ABOVE_CHANCE
    (only,) = judged.estimates
    return estimate(only.value, only.interval, form)


def shown_orders(values: Mapping[str, Any]) -> list[str]:
    """The orders of a pruning curve; the main fine-tuning is listed only if there are others."""
    single = len(values["curves"]["importance"]["runs"]) == 1
    return [name for name in values["prunable"] if not (single and name == "importance main")]


_INTERVAL = re.compile(r"\[[^\]]*\]")
_LONG = 60  # characters; longer cells are aligned left, as text


class Markup(str):
    """A cell that is HTML already."""


def anchor(name: str) -> str:
    """The anchor of a numbered table or figure.

    >>> anchor("Table S1"), anchor("Figure 3b")
    ('table-s1', 'figure-3b')
    """
    return re.sub(r"\W+", "-", name.lower()).strip("-")


def as_html(
    table: pd.DataFrame, name: str = "", caption: str = "", csv: pd.DataFrame | None = None
) -> str:
    """A table as HTML for a page; verdicts are coloured words, and claims stand out.

    The first column heads the rows. If ``attrs["prose"]`` of a table is true, or a cell is long,
    columns are set as text: aligned left and wrapped. A table with a name has a caption, an anchor
    and a link to its cells as CSV; readers can sort it where scripts run.

    >>> as_html(pd.DataFrame({"order": ["random"], 0.5: [2517.1]})).count("2517.1")
    1
    """
    shown = table.set_axis([str(column) for column in table], axis=1).map(_cell)
    long = any(isinstance(cell, str) and len(cell) > _LONG for cell in table.to_numpy().ravel())
    prose = long or table.attrs.get("prose", False)
    first = shown.columns[0]
    shown[first] = [f"<strong>{cell}</strong>" if cell in CLAIMS else cell for cell in shown[first]]
    shown = shown.set_index(first).rename_axis(index=None, columns=first or "no.")
    classes = ["sortable", *(["prose"] if prose else [])]
    head, body = shown.to_html(escape=False, border=0, classes=classes).split("</thead>")
    head, body = head.replace("<th>", '<th scope="col">'), body.replace("<th>", '<th scope="row">')
    return framed(f"{head}</thead>{body}", name, caption, table if csv is None else csv)


def framed(markup: str, name: str, caption: str, values: pd.DataFrame) -> str:
    """A ``<table>`` with its caption, in a frame that scrolls sideways when it is too narrow."""
    if not name:
        return f'<div class="table-frame">{markup}</div>'
    content = base64.b64encode(values.to_csv(index=False).encode()).decode()
    words = (
        f'<caption><span class="words"><strong>{name}.</strong> {caption} <a class="csv" '
        f'download="{anchor(name)}.csv" href="data:text/csv;base64,{content}">'
        f"CSV<span class='heard'> of {name}</span></a></span></caption>"
    )
    start, rest = re.split(r"(?<=>)", markup, maxsplit=1)
    return f'<div class="table-frame" id="{anchor(name)}">{start}{words}{rest}</div>'


def verdict_html(word: str) -> str:
    """A verdict's word in its colour."""
    return f'<span class="verdict verdict-{word.replace(" ", "-")}">{word}</span>'


def _cell(cell: Any) -> Any:
    if isinstance(cell, Markup):
        return cell
    if cell in WORDS:
        return verdict_html(cell)
    if not isinstance(cell, str):
        return cell
    # an interval stays on one line
    return _INTERVAL.sub(lambda found: found[0].replace(" ", "\u00a0"), html.escape(cell))


_STEPS = {"BLEU": (0.1, 0.3, 1.0), "points": (0.25, 0.5, 1.0)}
"""Unit -> changes from which a cell has a stronger colour."""

SIGNIFICANT = "p < 0.01"


@dataclass(frozen=True)
class Block:
    """One grid of changes, NaN where there is no cell, and the (row, column) that are significant."""

    title: str
    changes: pd.DataFrame
    significant: Collection[tuple[Any, Any]] = ()


def grid_html(
    name: str, caption: str, blocks: Sequence[Block], unit: str, column: str, row: str
) -> HTML:
    """Stacked grids with the same columns; significant cells are outlined.

    ``unit`` is ``"BLEU"`` or ``"points"``; ``column`` and ``row`` say what they are, as ``"head"``.
    """
    columns = max((block.changes.columns for block in blocks), key=len)
    shown, lines = [], []
    for block in blocks:
        changes = block.changes.reindex(columns=columns)
        cells = changes.astype(object)
        for place, change in changes.stack().dropna().items():
            significant = place in block.significant
            cells.loc[place] = _change_cell(change, significant, _STEPS[unit])
            lines.append((block.title, *place, change, significant))
        shown.append((block.title, cells.fillna("<td></td>")))
    csv = pd.DataFrame(lines, columns=["of", row, column, f"change ({unit})", SIGNIFICANT])
    markup = blocks_html(f"{row} \\ {column}", column, columns, shown)
    return HTML(framed(markup, name, caption, csv))


def blocks_html(
    corner: str, heard: str, columns: Iterable[Any], blocks: Iterable[tuple[str, pd.DataFrame]]
) -> str:
    """A ``<table>`` of stacked blocks, each a title and rows of ``<td>`` cells.

    ``corner`` heads the names of the rows; screen readers say ``heard`` before that of a column.
    """
    heads = "".join(
        f'<th scope="col"><span class="heard">{heard} </span>{column}</th>' for column in columns
    )
    bodies = "".join(
        f'<tbody><tr><th class="block" scope="rowgroup" colspan="{cells.shape[1] + 1}">'
        f"{html.escape(title)}</th></tr>"
        + "".join(
            f'<tr><th scope="row">{html.escape(str(label))}</th>{"".join(row)}</tr>'
            for label, row in cells.iterrows()
        )
        + "</tbody>"
        for title, cells in blocks
    )
    head = f'<thead><tr><th scope="col">{corner}</th>{heads}</tr></thead>'
    return f'<table class="grid">{head}{bodies}</table>'


def _change_cell(value: float, significant: bool, steps: Sequence[float]) -> str:
    strength = sum(abs(value) >= step for step in steps)
    colour = f"{'loss' if value < 0 else 'gain'}-{strength}" if strength else "level"
    shown = with_minus(f"{round(value, 2) + 0.0:.2f}")
    if not significant:
        return f'<td class="{colour}">{shown}</td>'
    heard = f'<span class="heard"> {SIGNIFICANT.replace("<", "below")}</span>'
    return f'<td class="{colour} significant">{shown}{heard}</td>'
