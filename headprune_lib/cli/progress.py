"""A bar on the terminal for what goes through many batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

One = TypeVar("One")


class Watched(Generic[One]):
    """Batches with a bar on standard error for each time that they are gone through.

    Where standard error is no terminal nothing is drawn.
    """

    def __init__(self, batches: Sequence[One], doing: str = "scoring heads") -> None:
        self.batches, self.doing = batches, doing

    def __iter__(self) -> Iterator[One]:
        """The batches."""
        from tqdm import tqdm

        yield from tqdm(self.batches, self.doing, unit="batch", leave=False, disable=None)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.batches)
