"""What a task is: text in splits, with labels, translations or nothing to be told of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from headprune_lib.replication.data.texts import Splits, Texts

Metric = Literal["accuracy", "matthews", "f1"]


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
                f"{self.name} has no split {name}, only {', '.join(splits)}. Give a task that has it"
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
