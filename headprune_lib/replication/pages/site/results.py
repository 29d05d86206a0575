"""Every stored result in one table, and how a long table is shown: first rows, and a field to search."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from headprune_lib.replication.pages.frames import frame
from headprune_lib.replication.store import Result
from headprune_lib.replication.titles import spelled

FILE = "data/results.csv"
"""Path of the table of every result below the site's first page."""

FIRST = 20
"""Rows of a long table that a page shows before one searches."""

_SHOWN_FIRST = "pruning curve"
_SITE = ".."  # the first page, as seen from a page of ``book``
# What says where in a result a row belongs; layers and heads are stored from 0 and shown from 1.
_FROM_ZERO = ("layer", "head")
_PLACES = ("model", "training", "order", "way", "criterion", "with", "kind", *_FROM_ZERO)
_RECIPE = ("epochs", "updates", "batch_size", "learning_rate")
_AMOUNTS = ("removed", "share", "sentences", "epoch", *_RECIPE)
_SETTINGS = (*_PLACES, *_AMOUNTS, "parameters", "left", "seconds", "alone")
# What an interval without a name of its own is of.
_MAIN = ("delta", "mean", "ratio", "r", "added", "score")
_SPELLED = {
    "delta": "change of the score",
    "delta_loss": "change of the loss",
    "mean": "score",
    "kept": "share of the score above chance kept",
    "kept_at": "share of BLEU kept at 40% removed",
    "ratio": "times as fast",
    "r": "rank correlation",
    "added": "nats a token added",
}


def results_table(results: Iterable[Result]) -> pd.DataFrame:
    """One estimate a row: measurement, model, task, place in the result, quantity, value, interval.

    Of what has intervals those quantities are told that have one; ``low`` and ``high`` are its ends.
    """
    rows = [row for result in results for row in _estimates(result)]
    rows.sort(key=lambda row: row["measurement"] != _SHOWN_FIRST)
    return pd.DataFrame(rows)


def _estimates(result: Result) -> Iterator[dict[str, Any]]:
    columns = frame(result)
    quantities = _quantities(list(columns))
    for row in columns.to_dict("records"):
        for value, low, high in quantities:
            if not isinstance(row[value], int | float) or pd.isna(row[value]):
                continue
            yield {
                "measurement": result.measurement.replace("_", " "),
                "model": spelled(result.model),
                "task": spelled(result.task),
                "where": _place(row),
                "quantity": _SPELLED.get(value, value.replace("_", " ")),
                "value": row[value],
                "low": row[low] if low else None,
                "high": row[high] if high else None,
            }


def _quantities(columns: Sequence[str]) -> list[tuple[str, str | None, str | None]]:
    """Column of each value, and those of its interval's ends."""
    found: list[tuple[str, str | None, str | None]] = []
    for low in columns:
        if not low.endswith("interval_low"):
            continue
        name = low.removesuffix("interval_low").rstrip("_ ")
        names = (name, f"{name}_score", f"{name} value") if name else _MAIN
        value = next((one for one in names if one in columns), None)
        if value:
            found.append((value, low, low.removesuffix("low") + "high"))
    return found or [
        (name, None, None)
        for name in columns
        if name not in _SETTINGS and not name.startswith("run ")
    ]


def _place(row: Mapping[str, Any]) -> str:
    words = []
    for name in (*_PLACES, *_AMOUNTS):
        value = row.get(name)
        if pd.isna(value) or value == "self":  # of an encoder, which has one kind of attention
            continue
        if name in _FROM_ZERO:
            words.append(f"{name} {int(value) + 1}")
        elif name in ("removed", "share") and isinstance(value, float):
            words.append(f"{value:.0%} removed")
        elif isinstance(value, str):
            words.append(value)
        else:
            words.append(f"{name.replace('_', ' ')} {value:g}")
    return ", ".join(words)


def searched_html(table: pd.DataFrame, name: str, caption: str, file: str) -> str:
    """The first rows of a table, the others as data for ``site.js``, which searches all of them.

    Args:
        name: its anchor.
        caption: what it shows, as HTML.
        file: the whole table as CSV, below the site's first page.
    """
    cells = table.map(_cell).to_numpy().tolist()
    head = "".join(f'<th scope="col">{html.escape(str(column))}</th>' for column in table)
    body = "".join(map(_row, cells[:FIRST]))
    others = json.dumps(cells[FIRST:], separators=(",", ":"), ensure_ascii=False)
    others = others.replace("</", "<\\/")  # which would end the element that holds it
    return (
        f'<div class="table-frame" id="{name}"><table class="dataframe prose long"><caption>'
        f'<span class="words">{caption} <a href="{_SITE}/{file}">All {len(cells):,} as CSV</a></span>'
        f"</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f'<script type="application/json" data-rows="{len(cells[FIRST:])}">{others}</script></div>'
    )


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if pd.isna(value) else f"{value:.4g}"
    return str(value)


def _row(cells: Sequence[str]) -> str:
    first, *others = map(html.escape, cells)
    return f'<tr><th scope="row">{first}</th>{"".join(f"<td>{one}</td>" for one in others)}</tr>'
