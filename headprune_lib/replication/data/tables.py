"""Labelled texts read from files: tab-separated tables, parallel lines, or the Hub."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from headprune_lib.replication.data.examples import Examples
from headprune_lib.replication.data.fetched import check_hub_cache
from headprune_lib.replication.data.sources import MissingData, WrongChecksum

_NO_LABEL = {"-", "-1"}
"""Marks of pairs on which the annotators did not agree, and of test sets without labels."""


@dataclass(frozen=True)
class Row:
    """One example as its source has it; ``where`` names the place for an error message."""

    where: str
    label: str
    text: str
    second: str | None = None


@dataclass(frozen=True)
class Table:
    """Tab-separated files, one after the other.

    Attributes:
        files: names below the task's folder.
        label: column of the label: its name in the header row, or its number where there is none.
        text: column of the (first) text.
        second: column of the other text of a pair.
        width: number of columns of a file without header row.
    """

    files: tuple[str, ...]
    label: str | int
    text: str | int
    second: str | int | None = None
    width: int | None = None

    def rows(self, folder: Path) -> Iterator[Row]:
        """Every line as a row.

        Raises:
            ValueError: a header without the columns, or a line of another width (it is named).
        """
        for file in self.files:
            yield from self._file(folder / file)

    def _file(self, path: Path) -> Iterator[Row]:
        wanted = [self.label, self.text, *([] if self.second is None else [self.second])]
        with path.open(encoding="utf-8-sig", newline="") as opened:
            lines = csv.reader(opened, delimiter="\t", quoting=csv.QUOTE_NONE)
            yield from self._rows(path, lines, wanted)

    def _rows(self, path: Path, lines, wanted: list[str | int]) -> Iterator[Row]:
        try:
            width, places = self.width, wanted
            if width is None:
                header = next(lines, [])
                if missing := [name for name in wanted if name not in header]:
                    raise ValueError(
                        f"{path} starts with the columns {header}, expected {missing} among them"
                    )
                width, places = len(header), [header.index(name) for name in wanted]
            for cells in lines:  # pandas would fill a short line up, and shift one with a cell more
                where = f"{path}, line {lines.line_num}"
                if len(cells) != width:
                    raise ValueError(
                        f"{where}: {len(cells)} columns, expected {width}, separated by tabs"
                    )
                yield Row(where, *(cells[place] for place in places))
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(
                f"{path}, after line {lines.line_num}: {error}; expected "
                "tab-separated text in UTF-8"
            ) from error


@dataclass(frozen=True)
class Lines:
    """Files with one label or text a line, side by side."""

    label: str
    text: str
    second: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """Their names, the labels' first."""
        return (self.label, self.text, *([] if self.second is None else [self.second]))

    def rows(self, folder: Path) -> Iterator[Row]:
        """Every line as a row; raises ValueError if the files differ in length."""
        with ExitStack() as stack:
            files = [
                stack.enter_context((folder / file).open(encoding="utf-8-sig"))
                for file in self.files
            ]
            try:
                for number, cells in enumerate(zip(*files, strict=True), 1):
                    yield Row(f"{folder}, line {number} of {', '.join(self.files)}", *cells)
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{folder}: {', '.join(self.files)} must be text in UTF-8: {error}"
                ) from error
            except ValueError as error:
                raise ValueError(
                    f"{folder}: {', '.join(self.files)} differ in their numbers of "
                    "lines; expected one line an example in each"
                ) from error


@dataclass(frozen=True)
class Hub:
    """A dataset on the Hugging Face Hub, read with ``datasets``."""

    path: str
    config: str | None
    splits: dict[str, str]
    label: str
    text: str
    second: str | None = None

    def rows(self, split: str) -> Iterator[Row]:
        """The rows of one of our splits.

        Raises:
            MissingData: ``datasets`` is not installed, or the Hub cannot be reached.
            WrongChecksum: a file was changed on the way here; it is set aside.
        """
        try:
            import datasets
        except ImportError as error:
            raise MissingData(
                "datasets is not installed; run pip install datasets, or give a "
                "folder with the text"
            ) from error
        try:
            table = datasets.load_dataset(self.path, self.config, split=self.splits[split])
        except Exception as error:  # each layer below has its own: network, proxy, file format
            check_hub_cache(self.path, "dataset")
            raise MissingData(
                f"{self.path} of the Hugging Face Hub cannot be read "
                f"({type(error).__name__}: {error})"
            ) from error
        try:
            check_hub_cache(self.path, "dataset")
        except WrongChecksum:  # nor may what was made of it be read next time
            for made in table.cache_files:
                shutil.rmtree(Path(made["filename"]).parent, ignore_errors=True)
            raise
        for number, row in enumerate(table):
            yield Row(
                f"{self.path} ({self.splits[split]}), row {number}",
                str(row[self.label]),
                row[self.text],
                None if self.second is None else row[self.second],
            )


def to_examples(rows: Iterable[Row], labels: Sequence[str]) -> Examples:
    """Rows of any source as examples; those without agreed label (``-``, ``-1``) are left out.

    Raises:
        ValueError: a label that is neither one of ``labels`` nor its number, or an empty text.
    """
    numbers = {name: i for i, name in enumerate(labels)} | {str(i): i for i in range(len(labels))}
    texts, seconds, found = [], [], []
    for row in rows:
        label = row.label.strip().lower()
        if label in _NO_LABEL:
            continue
        if label not in numbers:
            raise ValueError(
                f"{row.where}: unknown label {row.label.strip()!r}, expected one of "
                f"{', '.join(labels)} or 0 to {len(labels) - 1}"
            )
        pair = [text.strip() for text in (row.text, row.second) if text is not None]
        if not all(pair):
            raise ValueError(f"{row.where}: an empty text")
        texts.append(pair[0])
        seconds += pair[1:]
        found.append(numbers[label])
    return Examples(tuple(texts), tuple(found), tuple(seconds) or None)
