"""What a classification task is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from headprune_lib.data.examples import Examples

REGISTERED = "registered"
"""In place of a folder: the text of the committed results, whatever is at hand."""
Metric = Literal["accuracy", "matthews", "f1"]


@dataclass(frozen=True, eq=False)  # compared and cached by identity
class Task:
    """A classification task.

    Attributes:
        name: as ``--task`` takes it.
        title: for pages.
        labels: names of the classes, in the order of their numbers.
        read: gives the splits by name: ``test``, and ``train`` unless the task only serves as
            another domain.
        registered: name -> checksum of what the committed results were measured on.
        metric: what the task's score is; f1 is of class 1.
    """

    name: str
    title: str
    labels: tuple[str, ...]
    read: Callable[[], dict[str, Examples]] | None = None
    registered: dict[str, str] = field(default_factory=dict)
    metric: Metric = "accuracy"

    def load(self, data: str | None = None) -> dict[str, Examples]:
        """The splits by name; ``data`` matters to the public benchmarks alone."""
        return self.read()

    def checksums(self, data: str | None = None) -> dict[str, str]:
        """Name -> checksum of the text that :meth:`load` gives: part of a result's signature."""
        return self.registered
