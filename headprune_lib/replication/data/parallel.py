"""Sentences and their translations, and what a pair of languages is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

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
        load: gives the splits ``train``, ``valid``, ``score`` and ``test``.
        registered: name -> checksum of what the committed results were measured on.
        at_hand: gives the same of the text that ``load`` would give; ``registered`` if left out,
            where no other text is accepted.
    """

    name: str
    title: str
    languages: tuple[str, str]
    load: Callable[[], dict[str, Pairs]]
    registered: dict[str, str]
    at_hand: Callable[[], dict[str, str]] | None = None

    @property
    def checksums(self) -> dict[str, str]:
        """Name -> checksum of the text that ``load`` gives: part of a training's recipe."""
        return self.registered if self.at_hand is None else self.at_hand()
