"""Whether the order of removal still matters once a model is trained again: one rule, fixed before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

ORDER, SHARE, WAY = "importance", 0.4, "all weights"
"""What decides: the paper's order, so many heads removed, all weights trained."""
HARDLY = 0.01
"""A lead of less than a point of accuracy, or of less than 1 BLEU, hardly matters."""

Word = Literal["still matters", "random is better", "hardly matters", "open", "not run"]


@dataclass(frozen=True)
class Answer:
    """The word, and what it is read off.

    Attributes:
        before, after: accuracy, or BLEU as a fraction, by importance minus the mean of the random
            orders', before and after training, each with its 95% interval; None where it was not
            run.
    """

    word: Word
    before: tuple[float, float, float] | None = None
    after: tuple[float, float, float] | None = None


def decide(values: Mapping[str, Any] | None) -> Answer:
    """What the stored values of ``recovery`` say; None where there are none."""
    for lead in (values or {}).get("leads", ()):
        if (lead["order"], lead["share"], lead["way"]) == (ORDER, SHARE, WAY):
            before, after = (
                (lead[when]["difference"], *lead[when]["interval"]) for when in ("before", "after")
            )
            return Answer(word_of(after[1:]), before, after)
    return Answer("not run")


def word_of(interval: Sequence[float]) -> Word:
    """The word of an interval of the lead after training.

    >>> word_of((0.002, 0.03)), word_of((-0.004, 0.006)), word_of((-0.02, 0.006))
    ('still matters', 'hardly matters', 'open')
    """
    low, high = interval
    if low > 0:
        return "still matters"
    if high < 0:
        return "random is better"
    return "hardly matters" if low >= -HARDLY and high <= HARDLY else "open"
