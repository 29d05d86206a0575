"""Labelled texts, and splits of them that depend on nothing but the text."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Examples:
    """Texts with their labels (class numbers from 0); ``second`` holds each pair's other text."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]
    second: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def first(self, n: int | None) -> Examples:
        """The first ``n`` examples, all where ``n`` is None or larger than there are."""
        return self._part(slice(n))

    def after(self, n: int) -> Examples:
        """All but the first ``n`` examples."""
        return self._part(slice(n, None))

    def last(self, n: int) -> Examples:
        """The last ``n`` examples, all where there are fewer."""
        return self._part(slice(max(0, len(self) - n), None))

    def and_(self, more: Examples) -> Examples:
        """These examples, then those of another set; both are single texts, or both pairs."""
        second = None if self.second is None else (*self.second, *more.second)
        return Examples((*self.texts, *more.texts), (*self.labels, *more.labels), second)

    def rows(self, places: Sequence[int]) -> Examples:
        """The examples at these places, in their order."""
        sides = (self.texts, self.labels, *((self.second,) if self.second is not None else ()))
        return Examples(*(tuple(side[place] for place in places) for side in sides))

    def _part(self, part: slice) -> Examples:
        second = None if self.second is None else self.second[part]
        return Examples(self.texts[part], self.labels[part], second)

    @cached_property
    def sha256(self) -> str:
        """Checksum of labels and texts, in their order."""
        content = json.dumps([self.texts, self.labels, self.second], ensure_ascii=False)
        return hashlib.sha256(content.encode()).hexdigest()


def normalise(text: str) -> str:
    """Lower case, letters and digits only: two texts equal under it count as the same."""
    return re.sub(r"[\W_]+", " ", text.lower()).strip()


def hash_place(*texts: str) -> float:
    """A number in [0, 1) that depends on the normalised texts alone."""
    joined = "\t".join(normalise(text) for text in texts)
    return int(hashlib.sha256(joined.encode()).hexdigest()[:12], 16) / 16**12


def in_hash_order(examples: Examples) -> Examples:
    """The examples in order of their hash, so that the first n are a random sample."""
    return _of_rows(_placed(examples), examples)


def _placed(examples: Examples) -> list[tuple]:
    """Rows of place, one or two texts and label, in order of their places."""
    sides = [examples.texts] if examples.second is None else [examples.texts, examples.second]
    return sorted(
        (hash_place(*texts), *texts, label)
        for *texts, label in zip(*sides, examples.labels, strict=True)
    )


def _of_rows(rows: list[tuple], like: Examples) -> Examples:
    if not rows:
        return Examples((), (), None if like.second is None else ())
    _, first, *second, labels = zip(*rows, strict=True)
    return Examples(first, labels, *second)


def split_by_hash(examples: Examples, shares: dict[str, float]) -> dict[str, Examples]:
    """Splits that depend on each normalised text alone, so that none is on two sides.

    Args:
        shares: name -> share of the texts; they add up to 1. Each split is in order of hash, so
            that its first n are a random sample.
    """
    rows, splits, low = _placed(examples), {}, 0.0
    for name, share in shares.items():
        splits[name] = _of_rows([row for row in rows if low <= row[0] < low + share], examples)
        low += share
    return splits
