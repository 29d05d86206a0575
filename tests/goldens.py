"""Goldens: what readers see of the committed results, one file per kind in ``tests/goldens``.

``python tests/goldens.py`` compares the files with what the code makes now, prints every difference,
and exits with 1 if there is one. ``python tests/goldens.py write`` writes the files again: commit
them alone, with a message that says what changed and why.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import nbformat

from headprune_lib.replication import store
from headprune_lib.replication.claims import evidence
from headprune_lib.replication.pages.frames import frame
from headprune_lib.replication.pages.site.cards import cards_html
from headprune_lib.replication.paths import project_root

FOLDER = Path(__file__).parent / "goldens"
SHOWN = 20
"""Number of differences that are printed per file."""

Golden = dict[str, str]
"""The content of a golden: the name of each item -> its text."""


def leaves(values: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each number and text of nested dicts and lists, with its path."""
    if isinstance(values, dict):
        for name, value in values.items():
            yield from leaves(value, f"{path}.{name}" if path else name)
    elif isinstance(values, list):
        for i, value in enumerate(values):
            yield from leaves(value, f"{path}[{i}]")
    else:
        yield path, repr(values)


def values() -> Golden:
    """Every value of every committed result."""
    return {
        f"{'/'.join(key)} {path}": text
        for key in store.find()
        for path, text in leaves(store.load(key).values)
    }


def texts() -> Golden:
    """Every paragraph that a notebook's cells write."""
    written = {}
    for path in sorted((project_root() / "notebooks").glob("[01]*.ipynb")):
        if path.stem.endswith("-run"):
            continue
        for number, cell in enumerate(nbformat.read(path, as_version=4).cells):
            for output in cell.get("outputs", []):
                if words := output.get("data", {}).get("text/markdown"):
                    written[f"{path.stem} cell {number}"] = words
    return written


def tables() -> Golden:
    """Every line of the CSV files that the site ships."""
    lines = {}
    for key in store.find():
        text = frame(store.load(key)).to_csv(index=False)
        lines |= {f"{'/'.join(key)}:{i}": line for i, line in enumerate(text.splitlines())}
    return lines


all_verdicts = cache(evidence.all_verdicts)


def verdicts() -> Golden:
    """The word of each claim and of each of its results, and the results' power and numbers."""
    words = {}
    for verdict in all_verdicts():
        words[verdict.claim] = verdict.word
        for row in verdict.rows:
            where = f"{verdict.claim} {row.name}, {row.setting}"
            words |= {
                f"{where}: word": row.word,
                f"{where}: paper's criterion": str(row.judged.met),
                f"{where}: power": f"{row.judged.power:.6g}",
                f"{where}: counts": str(row.counts),
                f"{where}: measured": row.judged.measured,
            }
    return words


def cards() -> Golden:
    """The claims' cards as HTML, line by line."""
    html = cards_html(all_verdicts())
    return {f"{i:04}": line for i, line in enumerate(html.splitlines())}


def census() -> Golden:
    """The outcome of each law for each type of model."""
    with (project_root() / "data" / "census.csv").open(newline="", encoding="utf-8") as file:
        return {
            f"{row['model type']}: {law}": outcome
            for row in csv.DictReader(file)
            for law, outcome in row.items()
            if law not in ("model type", "seconds")
        }


KINDS: dict[str, Callable[[], Golden]] = {
    "values": values,
    "texts": texts,
    "tables": tables,
    "verdicts": verdicts,
    "cards": cards,
    "census": census,
}


def path_of(kind: str) -> Path:
    """The golden file of a kind: two columns, name and text, compressed."""
    return FOLDER / f"{kind}.csv.gz"


def write(kind: str) -> None:
    """Store what the code makes now; the same content gives the same bytes."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(KINDS[kind]().items())
    FOLDER.mkdir(exist_ok=True)
    path_of(kind).write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def read(kind: str) -> Golden:
    """A stored golden."""
    text = gzip.decompress(path_of(kind).read_bytes()).decode()
    return dict(csv.reader(io.StringIO(text)))


def differences(stored: Golden, now: Golden) -> list[str]:
    """A line for each thing that changed, is gone or is new."""
    lines = [f"- {name}: {stored[name]}" for name in stored if name not in now]
    for name, text in now.items():
        if name not in stored:
            lines.append(f"+ {name}: {text}")
        elif stored[name] != text:
            lines.append(f"! {name}: {stored[name]} -> {text}")
    return lines


def compare(kinds: Iterable[str] = KINDS) -> list[str]:
    """A readable report of what differs from the goldens, with the first lines of each kind."""
    report = []
    for kind in kinds:
        if lines := differences(read(kind), KINDS[kind]()):
            report.append(f"{kind}: {len(lines)} differences")
            report += [f"  {line}" for line in lines[:SHOWN]]
    return report


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        for name in KINDS:
            write(name)
    elif found := compare():
        sys.exit("\n".join(found))
