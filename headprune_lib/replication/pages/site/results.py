"""Tables of every stored result and every run, and long tables shown in part, with a search."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from headprune_lib.replication.data import file_sha256
from headprune_lib.replication.pages.frames import frame
from headprune_lib.replication.pages.tables.verdicts import named
from headprune_lib.replication.paths import models_root
from headprune_lib.replication.store import OUTCOMES, Part, Result
from headprune_lib.replication.titles import machine, spelled

FILE = "data/results.csv"
"""Path of the table of every result, relative to the site's first page."""

FIRST = 20
"""Number of rows of a long table that a page shows before a search."""

_SHOWN_FIRST = "pruning curve"
_SITE = ".."  # the first page, as seen from a page of ``book``
# Columns that locate a row in its result; layers and heads are stored from 0 and shown from 1.
_FROM_ZERO = ("layer", "head")
_PLACES = ("model", "training", "order", "way", "criterion", "with", "kind", *_FROM_ZERO)
_RECIPE = ("epochs", "updates", "batch_size", "learning_rate")
_AMOUNTS = ("removed", "share", "sentences", "epoch", *_RECIPE)
_SETTINGS = (*_PLACES, *_AMOUNTS, "parameters", "left", "seconds", "alone")
# Quantities to which an interval without a name of its own may belong.
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
    """One row per estimate: measurement, model, task, place, quantity, value and interval.

    If quantities have intervals, only those are listed; ``low`` and ``high`` are their ends.
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
    """The column of each value, and those of its interval's ends or None."""
    quantities = []
    for low in columns:
        if not low.endswith("interval_low"):
            continue
        name = low.removesuffix("interval_low").rstrip("_ ")
        names = (name, f"{name}_score", f"{name} value") if name else _MAIN
        value = next((column for column in names if column in columns), None)
        if value:
            quantities.append((value, low, low.removesuffix("low") + "high"))
    return quantities or [
        (name, None, None)
        for name in columns
        if name not in _SETTINGS and not name.startswith("run ")
    ]


def _place(row: Mapping[str, Any]) -> str:
    words = []
    for name in (*_PLACES, *_AMOUNTS):
        value = row.get(name)
        if pd.isna(value) or value == "self":  # an encoder has one kind of attention
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
    """The first rows of a table, and the rest as data for ``site.js``, which searches all of them.

    ``name`` is its anchor; ``file`` the path of its CSV, relative to the site's first page.
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
    return f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in others)}</tr>'


# --- the runs: when, where, how long, with which versions, and whether weights are checked here -------


def status_table(results: Iterable[Result]) -> pd.DataFrame:
    """One row per measurement run; parts that were measured together share a row."""
    committed = {file_sha256(path) for path in models_root().glob("*.safetensors")}
    rows = [row for result in results for row in _runs(result, committed)]
    return pd.DataFrame(rows).sort_values("measured", ascending=False, kind="stable")


def _runs(result: Result, committed: set[str]) -> Iterator[dict[str, str]]:
    """Yield one row for each set of a result's parts that were measured together.

    ``committed`` has the SHA-256 of the weights that are committed.
    """
    together: dict[tuple, dict[str, Part]] = {}
    for name, part in result.parts.items():
        run = (part.provenance["date"], part.provenance["seconds"], _checked(part, committed))
        together.setdefault(run, {})[name] = part
    for (date, seconds, checked), parts in together.items():
        measured = next(iter(parts.values())).provenance
        packages = {"Python": measured["python"], **measured["packages"]}
        yield {
            "result": named(result).replace("_", " "),
            "measured": date[:10],
            "machine": machine(measured["hardware"]),
            "minutes": f"{seconds / 60:.1f}",
            "versions": ", ".join(
                f"{name} {packages[name]}" for name in ("Python", "torch", "transformers")
            ),
            "checked": checked,
            "signature": _signature(parts),
        }


def _signature(parts: Mapping[str, Part]) -> str:
    """The dependencies of parts measured together, ``key:value`` separated by bars.

    The last entry is the start of each signature's digest, which covers parameters, text, weights
    and training recipes. Task and model, which the row has already, are left out.
    """
    first = next(iter(parts.values())).signature
    words = [] if [*parts] == [OUTCOMES] else [f"parts:{','.join(parts)}"]
    for name, value in {**first["parameters"], **first["own"]}.items():
        if name not in ("task", "model", "order", "needs") and value is not None:
            words.append(f"{name}:{_short(value)}")
    runs = [run for part in parts.values() for run in part.runs]
    if seeds := sorted({run["seed"] for run in runs if "seed" in run}):
        words.append(f"seeds:{_short(seeds)}")
    words.append(f"version:{first['measurement']}")
    words.append("sha256:" + ",".join(part.signature["digest"][:8] for part in parts.values()))
    return "|".join(words)


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "+".join(f"{key}={_short(one)}" for key, one in value.items() if one is not None)
    if isinstance(value, list):
        every = [_short(part) for part in value]
        return ",".join(every) if len(every) <= 5 else f"{every[0]}..{every[-1]}({len(every)})"
    return str(value)


def _checked(part: Part, committed: set[str]) -> str:
    """Whether weights are committed, or of how many trainings: test runs measure those again."""
    weights = {run["weights_sha256"] for run in part.runs if "weights_sha256" in run}
    held = len(weights & committed)
    if not weights:
        return "no: weights not kept"
    if held == len(weights):
        return "yes"
    return f"{held} of {len(weights)} trainings" if held else "no: weights not committed"
