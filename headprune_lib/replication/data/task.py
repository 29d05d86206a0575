"""What a classification task is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from headprune_lib.replication.data.examples import Examples

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
        short: what tables and figures call it; the name if not given.
        part_of: the task whose text and fine-tunings these are, where results of more of its test
            examples are kept apart; what a profile says of that task holds here as well.
    """

    name: str
    title: str
    labels: tuple[str, ...]
    read: Callable[[], dict[str, Examples]] | None = None
    registered: dict[str, str] = field(default_factory=dict)
    metric: Metric = "accuracy"
    short: str = ""
    part_of: str = ""

    @property
    def whole(self) -> str:
        """The name of the task whose text is read and whose fine-tunings are measured."""
        return self.part_of or self.name

    def load(self, data: str | None = None) -> dict[str, Examples]:
        """The splits by name; ``data`` matters to the public benchmarks alone."""
        return self.read()

    def split(self, name: str, data: str | None = None) -> Examples:
        """One split; raises ValueError where the task has none of this name."""
        splits = self.load(data)
        if name not in splits:
            raise ValueError(
                f"{self.name} has no split {name}, only {', '.join(splits)}: it "
                "serves as another domain of a task that is fine-tuned on"
            )
        return splits[name]

    def checksums(self, data: str | None = None) -> dict[str, str]:
        """Name -> checksum of the text that :meth:`load` gives: part of a result's signature."""
        return self.registered
