"""Sentences and their translations, and what a pair of languages is."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from headprune_lib.replication.data.examples import hash_place

Place = tuple[int, ...]
"""Where a pair comes from: book, chapter and verse, or the line of a file; from 1."""


@dataclass(frozen=True)
class Pairs:
    """Sentences and their translations, each with the place it comes from."""

    places: tuple[Place, ...]
    sources: tuple[str, ...]
    targets: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.places)

    def first(self, n: int | None) -> Pairs:
        """The first ``n`` pairs, all where ``n`` is None or larger than there are."""
        return Pairs(self.places[:n], self.sources[:n], self.targets[:n])

    @cached_property
    def sha256(self) -> str:
        """Checksum of both sides, in their order."""
        content = json.dumps([self.sources, self.targets], ensure_ascii=False)
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True)
class TranslationTask:
    """A pair of languages and its text.

    Attributes:
        load: gives the splits by name: ``train``, ``valid``, ``score`` and ``test``, where the text
            is for all of these; no ``train`` where the model was trained by others.
        registered: name -> checksum of what the committed results were measured on.
        at_hand: gives the same of the text that ``load`` would give; ``registered`` if left out,
            where no other text is accepted.
        chosen: the split on which Table 5 chooses the best heads, and the one that it reports.
        far: the split that is measured where this text is another task's other domain.
        short: what pages call it; its name if left out.
    """

    name: str
    title: str
    languages: tuple[str, str]
    load: Callable[[], dict[str, Pairs]]
    registered: dict[str, str]
    at_hand: Callable[[], dict[str, str]] | None = None
    chosen: tuple[str, str] = ("valid", "test")
    far: str = "score"
    short: str = ""

    def split(self, name: str) -> Pairs:
        """One split; raises ValueError where the task has none of this name."""
        splits = self.load()
        if name not in splits:
            raise ValueError(f"{self.name} has no split {name}, only {', '.join(splits)}")
        return splits[name]

    @property
    def checksums(self) -> dict[str, str]:
        """Name -> checksum of the text that ``load`` gives: part of a training's recipe."""
        return self.registered if self.at_hand is None else self.at_hand()


def in_hash_order(pairs: Pairs) -> Pairs:
    """Pairs in order of a hash of their text, so that the first n are a random sample."""
    rows = sorted(
        (hash_place(source, target), place, source, target)
        for place, source, target in zip(pairs.places, pairs.sources, pairs.targets, strict=True)
    )
    return Pairs(*(tuple(row[column] for row in rows) for column in (1, 2, 3)))


def aligned(sides: Sequence[Path], *, gaps: bool = False) -> tuple[list[str], list[str]]:
    """The lines of a file and of its translation, with single spaces between words.

    Args:
        gaps: whether a line may be empty.

    Raises:
        ValueError: not UTF-8, an empty line, or not as many lines.
    """
    source, target = (_lines(path, gaps) for path in sides)
    if len(source) != len(target):
        names = " and ".join(path.name for path in sides)
        raise ValueError(
            f"{sides[0].parent}: {names} have {len(source)} and {len(target)} lines; expected a "
            "translation a line"
        )
    return source, target


def _lines(path: Path, gaps: bool) -> list[str]:
    content = path.read_bytes()
    try:
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} must be text in UTF-8: {error}") from error
    lines = [" ".join(line.split()) for line in text.removesuffix("\n").split("\n")]
    if "" in lines and not gaps:
        raise ValueError(f"{path}, line {lines.index('') + 1}: an empty line")
    return lines
