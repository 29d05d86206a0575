"""Text with labels, or with translations, from a TSV or JSONL file."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COLUMNS = "text and label, text, text2 and label, source and target, or text alone"


@dataclass(frozen=True)
class Rows:
    """What a file holds; ``second`` are second texts, ``labels`` names or numbers of classes."""

    texts: list[str]
    second: list[str] | None = None
    labels: list[Any] | None = None
    targets: list[str] | None = None

    def __len__(self) -> int:
        return len(self.texts)


def read_rows(path: Path) -> Rows:
    """The rows of a ``.tsv`` or ``.jsonl`` file, named columns: ``text``, ``text2`` and ``label``,
    ``source`` and ``target``, or ``text`` alone for a language model.

    Raises:
        FileNotFoundError: no such file.
        ValueError: another ending, other columns, no row, or a row (named, from 1) with more cells
            than the header, with missing cells or with something else than text in one.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    if path.suffix not in (".tsv", ".jsonl", ".json"):
        raise ValueError(f"{path} is neither .tsv nor .jsonl")
    try:
        columns, rows = _tsv(path) if path.suffix == ".tsv" else _jsonl(path)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 ({error}); save it in that encoding") from None
    names = set(columns)
    if names != {"source", "target"} and not ("text" in names <= {"text", "text2", "label"}):
        raise ValueError(f"{path} has the columns {sorted(names)}, expected {COLUMNS}")
    if not rows:
        raise ValueError(f"{path} names columns and holds no row: add one a text")
    for number, row in enumerate(rows, 1):
        _check(f"{path}, row {number}", row, columns)
    found = {name: [row[name] for row in rows] for name in columns}
    if "source" in found:
        return Rows(found["source"], targets=found["target"])
    return Rows(found["text"], found.get("text2"), found.get("label"))


Table = tuple[list[str], list[dict[str, Any]]]
"""Names of the columns, and the rows; a cell that is missing is not in its row."""


def _tsv(path: Path) -> Table:
    with path.open(encoding="utf-8-sig", newline="") as file:
        # quotes are part of the text
        lines = [
            line
            for line in _lines(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE), path)
            if line
        ]
    if not lines:
        raise ValueError(f"{path} is empty: its first line is to name the columns, {COLUMNS}")
    header, rows = lines[0], []
    if len(set(header)) < len(header):
        raise ValueError(f"{path} names a column twice: {header}")
    for number, cells in enumerate(lines[1:], 1):
        if len(cells) > len(header):
            raise ValueError(
                f"{path}, row {number}: {len(cells)} cells, but {len(header)} "
                "columns; is there a tab in a text?"
            )
        rows.append(dict(zip(header, cells, strict=False)))
    return header, rows


def _lines(reader: Iterator[list[str]], path: Path) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error as error:  # a cell of more than 131,072 letters
        raise ValueError(f"{path}: {error}") from None


def _jsonl(path: Path) -> Table:
    rows: list[dict[str, Any]] = []
    with path.open(encoding="utf-8-sig") as file:
        for line in filter(str.strip, file):
            try:
                row = json.loads(line)
            except (json.JSONDecodeError, RecursionError) as error:
                raise ValueError(f"{path}, row {len(rows) + 1}: not JSON ({error})") from None
            if not isinstance(row, dict):
                raise ValueError(
                    f"{path}, row {len(rows) + 1}: expected an object such as "
                    f'{{"text": "…", "label": 1}}, not {line.strip()[:40]}'
                )
            rows.append(row)
    if not rows:
        raise ValueError(f"{path} is empty: each line is to be an object with {COLUMNS}")
    return list(dict.fromkeys(name for row in rows for name in row)), rows


def _check(place: str, row: dict[str, Any], columns: list[str]) -> None:
    if holes := [name for name in columns if row.get(name) in (None, "")]:
        raise ValueError(
            f"{place}: {holes} is missing or empty; fill it in, or take the row out of the file"
        )
    for name in columns:
        if name != "label" and not isinstance(row[name], str):
            raise ValueError(f"{place}: {name} is {row[name]!r}, expected text")
