"""Conclusions on the pages that no function computes, each with what must be true for it to stand.

A module a page has ``STATEMENTS``. A sentence that is changed is changed here too; one that a new
result makes false is found by ``tests/replication/pages/test_statements.py``.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup

from headprune_lib.replication import measurements, store
from headprune_lib.replication.claims import evidence
from headprune_lib.replication.claims.verdict import Row
from headprune_lib.replication.paths import project_root
from headprune_lib.replication.store import Key, Result


@dataclass(frozen=True)
class Statement:
    """Words of a page, and whether they follow from what is stored.

    Attributes:
        page: path from the root of the project.
        words: exactly as they stand there; how lines are broken does not matter.
        follows: reads the stored results; anything but True, or an error, is a false statement.
        slow: whether it computes for seconds.
    """

    page: str
    words: str
    follows: Callable[[], bool]
    slow: bool = False


def on(page: str, sentences: dict[str, Callable[[], bool]], slow: bool = False) -> list[Statement]:
    """The statements of a page: its words, and what must be true for them to stand."""
    return [Statement(page, words, follows, slow) for words, follows in sentences.items()]


def all_statements() -> list[Statement]:
    """Those of all modules of this package that have some."""
    modules = (
        importlib.import_module(f"{__name__}.{module.name}")
        for module in pkgutil.iter_modules(__path__)
    )
    return [statement for module in modules for statement in getattr(module, "STATEMENTS", ())]


def problem(statement: Statement, root: Path | None = None) -> str:
    """What is wrong with a statement; empty if it stands on its page and follows."""
    path = (root or project_root()) / statement.page
    if one_line(statement.words) not in prose(path):
        return f"not on {statement.page}: {statement.words!r}; put what stands there now"
    try:
        follows = statement.follows()
    except (store.ResultDamaged, FileNotFoundError, LookupError) as error:
        return f"cannot be told from what is stored: {statement.words!r} ({error!r})"
    if follows:
        return ""
    return f"no longer follows: {statement.words!r} on {statement.page}; rewrite it"


@cache
def prose(path: Path) -> str:
    """The text of a page, of a notebook its Markdown cells and its captions, in one line."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join(
            "".join(c["source"]) if c["cell_type"] == "markdown" else captions(c) for c in cells
        )
    return one_line(text)


def captions(cell: dict[str, Any]) -> str:
    """What the outputs of a cell of code say below figures and above tables."""
    shown = (
        "".join(output["data"]["text/html"])
        for output in cell.get("outputs", [])
        if "text/html" in output.get("data", {})
    )
    return "\n".join(
        found.get_text()
        for markup in shown
        for found in BeautifulSoup(markup, "html.parser").select("figcaption, caption")
    )


def one_line(text: str) -> str:
    """With one blank wherever there are some."""
    return re.sub(r"\s+", " ", text).strip()


@cache
def result(measurement: str, task: str, model: str) -> Result:
    """A stored result. Raises FileNotFoundError where there is none."""
    return store.load(Key(measurement, task, model))


def values(measurement: str, task: str, model: str) -> dict[str, Any]:
    """Those of a stored result."""
    return result(measurement, task, model).values


@cache
def found(measurement: str) -> tuple[Result, ...]:
    """Every stored result of a measurement."""
    return tuple(measurements.found(measurement))


@cache
def rows(measurement: str, task: str, model: str, claim: str) -> tuple[Row, ...]:
    """What the rules say of a stored result on a claim."""
    every = evidence.rows_of(result(measurement, task, model))
    return tuple(row for row in every if row.claim == claim)


def row(measurement: str, task: str, model: str, claim: str) -> Row:
    """The first of :func:`rows`."""
    return rows(measurement, task, model, claim)[0]
