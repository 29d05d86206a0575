"""Texts and the tasks on them; texts are read from files and split by their content alone."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

Splits = dict[str, "Texts"]
Metric = Literal["accuracy", "matthews", "f1"]
Place = tuple[int, ...]
"""Where a text comes from: book, chapter and verse, or the line of a file; from 1."""


@dataclass(frozen=True)
class Texts:
    """Texts in order, with their labels, second texts and places.

    Attributes:
        texts: sentences, passages, first texts of pairs, or source texts of translations.
        labels: class numbers from 0; empty if the texts have none.
        second: second texts of pairs, or translations; None for single texts.
        places: where each text comes from; empty if that does not matter.
    """

    texts: tuple[str, ...]
    labels: tuple[int, ...] = ()
    second: tuple[str, ...] | None = None
    places: tuple[Place, ...] = ()

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def sources(self) -> tuple[str, ...]:
        """The texts to be translated."""
        return self.texts

    @property
    def targets(self) -> tuple[str, ...]:
        """The translations of the sources."""
        return self.second or ()

    def first(self, n: int | None) -> Texts:
        """The first ``n`` texts; all if ``n`` is None or there are fewer."""
        return self.rows(range(len(self))[:n])

    def after(self, n: int) -> Texts:
        """All but the first ``n`` texts."""
        return self.rows(range(len(self))[n:])

    def last(self, n: int) -> Texts:
        """The last ``n`` texts; all if there are fewer."""
        return self.after(max(0, len(self) - n))

    def rows(self, positions: Sequence[int]) -> Texts:
        """The texts at these positions, in the order of ``positions``."""
        return Texts(*(column and tuple(column[i] for i in positions) for column in self._columns))

    def and_(self, more: Texts) -> Texts:
        """These texts, then those of another set, which must have the same columns."""
        columns = zip(self._columns, more._columns, strict=True)
        return Texts(*(None if left is None else (*left, *right) for left, right in columns))

    @property
    def _columns(self) -> tuple:
        return self.texts, self.labels, self.second, self.places

    @cached_property
    def sha256(self) -> str:
        """Checksum of texts, second texts and, if there are no places, labels, in their order."""
        columns = [self.texts, self.second] if self.places else [*self._columns[:3]]
        return hashlib.sha256(json.dumps(columns, ensure_ascii=False).encode()).hexdigest()


@dataclass(frozen=True, eq=False)  # compared and cached by identity
class Task:
    """A task that is measured on a text.

    Attributes:
        name: as given to ``--task``.
        title: for pages.
        read: returns the splits by name, as far as the text has them: ``train``, ``valid``,
            ``test``, and ``score`` for the pairs that translators' importance is measured on. None
            for a public benchmark, which has a ``load`` of its own.
        registered: name -> checksum of the text that the committed results were measured on.
        at_hand: returns the same for the text that ``read`` would return; if left out, only the
            ``registered`` text is accepted.
        short: its name in tables and figures; ``name`` if not given.
    """

    name: str
    title: str
    read: Callable[[], Splits] | None = None
    registered: dict[str, str] = field(default_factory=dict)
    at_hand: Callable[[], dict[str, str]] | None = None
    short: str = ""

    def load(self, data: str | None = None) -> Splits:
        """The splits by name; ``data`` only matters to public benchmarks."""
        return self.read()

    def split(self, name: str, data: str | None = None) -> Texts:
        """One split. Raises ValueError if the task has none of this name."""
        splits = self.load(data)
        if name not in splits:
            raise ValueError(
                f"{self.name} has no split {name}, only {', '.join(splits)}. Give another task"
            )
        return splits[name]

    def checksums(self, data: str | None = None) -> dict[str, str]:
        """Name -> checksum of the text that :meth:`load` returns: part of a result's signature."""
        return self.registered if self.at_hand is None else self.at_hand()


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassificationTask(Task):
    """Texts, or pairs of texts, with labels.

    Attributes:
        labels: names of the classes, in the order of their numbers.
        metric: the task's score; f1 is that of class 1.
        part_of: the task that shares its text and fine-tunings, where results on more of the test
            examples are kept apart; a profile's settings for that task apply here as well.
    """

    labels: tuple[str, ...]
    metric: Metric = "accuracy"
    part_of: str = ""

    @property
    def whole(self) -> str:
        """The name of the task whose text is read and whose fine-tunings are measured."""
        return self.part_of or self.name


@dataclass(frozen=True, eq=False, kw_only=True)
class TranslationTask(Task):
    """A text in two languages; it has no ``train`` where the model was trained by others.

    Attributes:
        chosen: the split on which Table 5 chooses the best heads, and the one that it reports.
        far: the split that is measured when this text serves as another task's other domain.
    """

    languages: tuple[str, str]
    chosen: tuple[str, str] = ("valid", "test")
    far: str = "score"


@dataclass(frozen=True, eq=False, kw_only=True)
class LanguageTask(Task):
    """Passages that a language model predicts; ``unit`` is what one is, such as ``chapter``."""

    unit: str


# --- order and splits -----------------------------------------------------------------------------


def checksums_of(name: str, splits: Splits) -> dict[str, str]:
    """Name of a task, and split -> checksum of its text."""
    return {f"{name}/{split}": texts.sha256 for split, texts in splits.items()}


def normalise(text: str) -> str:
    """Lower case, letters and digits only: two texts equal under it count as the same."""
    return re.sub(r"[\W_]+", " ", text.lower()).strip()


def hash_share(text: str) -> float:
    """A number in [0, 1) that depends on the text alone, uniform over texts."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16) / 16**12


def text_hashes(texts: Texts) -> list[float]:
    """A number in [0, 1) for each text or pair, which depends on its normalised spelling alone."""
    pairs = zip(*filter(None, (texts.texts, texts.second)), strict=True)
    return [hash_share("\t".join(map(normalise, pair))) for pair in pairs]


def in_hash_order(texts: Texts) -> Texts:
    """The texts in order of their hash, so that the first n are a random sample."""
    columns = [*filter(None, (texts.places, texts.texts, texts.second, texts.labels))]
    rows = [*zip(text_hashes(texts), *columns, strict=True)]
    return texts.rows(sorted(range(len(texts)), key=rows.__getitem__))


def split_by_hash(texts: Texts, shares: dict[str, float]) -> Splits:
    """Splits that depend on each normalised text alone, so that no text is in two of them.

    Each is in order of hash, so that its first n are a random sample. The shares add up to 1.
    """
    texts = in_hash_order(texts)
    names = [share_at(at, shares) for at in text_hashes(texts)]
    return {name: texts.rows([i for i, at in enumerate(names) if at == name]) for name in shares}


def share_at(at: float, shares: dict[str, float]) -> str | None:
    """The name of the share that a number in [0, 1) falls into; None behind the last one."""
    upper = 0.0
    for name, share in shares.items():
        upper += share
        if at < upper:
            return name
    return None


SHARES = {"test": 0.048, "valid": 0.026, "score": 0.026}
"""Shares of the Bible's chapters; the rest is for training."""


def split_of_chapter(book: int, chapter: int, shares: dict[str, float] = SHARES) -> str:
    """The split that a chapter belongs to: ``train``, or the name of one of the shares."""
    return share_at(hash_share(f"{book}:{chapter}"), shares) or "train"


def split_by_chapter(
    rows: Sequence[tuple[str, str, Place]], shares: dict[str, float] = SHARES
) -> Splits:
    """Splits of whole chapters, since the verses of a chapter share names and phrases.

    A chapter's split depends on its book and number alone, so that all translations of a verse
    are in the same one. Each split is in order of a hash of the verse: its first n are a sample.
    """
    members: dict[str, list] = {name: [] for name in (*shares, "train")}
    for row in sorted(rows, key=lambda row: hash_share("verse {}:{}:{}".format(*row[2]))):
        members[split_of_chapter(*row[2][:2], shares)].append(row)
    return {name: translated(chosen) for name, chosen in members.items()}


def translated(rows: Sequence[tuple[str, str, Place]]) -> Texts:
    """Texts with their translations and places."""
    sources, targets, places = (tuple(row[i] for row in rows) for i in range(3))
    return Texts(sources, second=targets, places=places)


# --- files ----------------------------------------------------------------------------------------


def read_table(
    path: Path, columns: Sequence[str | int], width: int | None = None
) -> Iterator[tuple[str, ...]]:
    """The lines of a table: the location of each, for error messages, then its cells.

    Cells are separated by tabs, or in a ``.csv`` file by commas, with quotes where needed. Columns
    have names in the header row, or numbers in a file without, which has ``width`` of them.
    """
    commas = path.suffix.lower() == ".csv"
    form = {"strict": True} if commas else {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    between = "commas" if commas else "tabs"
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines, places = csv.reader(file, **form), [*columns]
        try:
            if width is None:
                header = next(lines, [])
                if missing := [name for name in columns if name not in header]:
                    raise ValueError(
                        f"{path} starts with the columns {header}, expected {missing} among them"
                    )
                width, places = len(header), [header.index(str(name)) for name in columns]
            for cells in lines:  # pandas would pad a short line, and shift one with an extra cell
                where = f"{path}, line {lines.line_num}"
                if len(cells) != width:
                    raise ValueError(
                        f"{where}: {len(cells)} columns, expected {width}, separated by {between}"
                    )
                yield where, *(cells[int(column)] for column in places)
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(
                f"{path}, after line {lines.line_num}: {error}. Give text in UTF-8, with cells "
                f"separated by {between}"
            ) from error


def read_lines(paths: Sequence[Path]) -> list[list[str]]:
    """The lines of files that belong together, plain or compressed (``.gz``)."""
    sides = []
    for path in paths:
        content = path.read_bytes()
        try:
            content = gzip.decompress(content) if path.suffix == ".gz" else content
            sides.append(content.decode("utf-8-sig").removesuffix("\n").split("\n"))
        except (OSError, EOFError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} must be text in UTF-8: {error}") from error
    if len({*map(len, sides)}) > 1:
        counts = ", ".join(
            f"{path.name} has {len(side)}" for path, side in zip(paths, sides, strict=True)
        )
        raise ValueError(f"{paths[0].parent}: {counts} lines, expected equally many")
    return sides


def read_pairs(paths: Sequence[Path], *, origin: Place = (), gaps: bool = False) -> Texts:
    """A file and its translation, line by line, with single spaces between words.

    Args:
        origin: the start of each pair's place, which ends with its line number.
        gaps: whether a side may be empty; the pair is then left out.
    """
    rows = []
    for number, lines in enumerate(zip(*read_lines(paths), strict=True), 1):
        pair = [" ".join(line.split()) for line in lines]
        if all(pair):
            rows.append((*pair, (*origin, number)))
        elif not gaps:
            raise ValueError(f"{paths[pair.index('')]}, line {number}: an empty line")
    return translated(rows)
