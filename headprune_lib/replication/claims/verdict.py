"""Judgements of results, and the rule that combines them into the verdict on a claim."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from headprune_lib.replication.formatting import estimate
from headprune_lib.replication.paper import as_in_the_paper
from headprune_lib.replication.stats import power_above, standard_error

Word = Literal["replicates", "differs", "mixed", "undecided", "not run"]
WORDS: tuple[Word, ...] = get_args(Word)
PLURALS: dict[Word, str] = {
    "replicates": "replicate",
    "differs": "differ",
    "mixed": "mixed",
    "undecided": "undecided",
}
"""The words for results that were run, as they follow a number of results."""
MODELS = {"encoder": "encoder", "translation": "translator"}
"""The kind of model that each half of the paper is about, as pages call it."""


def agreeing(word: Word, n: int) -> str:
    """The form of a verdict's word for a number of results, such as "differ" for two."""
    return word if n == 1 else PLURALS[word]


LEAST_POWER = 0.8
"""A result counts if its rule would decide at least this often under the paper's effect."""

COMBINING = (
    f"A result counts if its rule decides with probability {LEAST_POWER:g} or more when the truth is the "
    "paper's, and if no other result of the same model and task counts instead. If all counted results "
    "agree, the claim gets their verdict. If none differs and at least half replicate, it replicates. If "
    "some replicate and some differ, or one is mixed in itself, it is mixed. Otherwise it is undecided. "
    "Results that differ without the power to replicate do not count and are listed separately."
)
"""The single rule that derives a claim's word from its results."""


Record = Mapping[str, Any]
"""An estimate as results have it, with its ``interval`` and, for a t interval over trainings, its
standard ``error`` and degrees of ``freedom``."""


@dataclass(frozen=True)
class Estimate:
    """A number that a rule judges, as figures show it: a dot, its interval, and the bound.

    Attributes:
        interval: 95%, low and high; None where the rule counts and estimates nothing.
        bound: the value that the rule compares it with.
        label: which of several estimates it is; empty for a single one.
        error, freedom: of the interval.
    """

    value: float
    interval: tuple[float, float] | None
    bound: float = 0.0
    label: str = ""
    error: float = math.nan
    freedom: float = math.inf

    @classmethod
    def of(cls, record: Record, name: str, bound: float = 0.0, label: str = "") -> Estimate:
        """The estimate that a result has under a name; without an interval if it has none."""
        value, interval = record[name], record["interval"]
        if interval is None:
            return cls(value, None, bound, label)
        error = record.get("error") or standard_error(interval)
        return cls(value, tuple(interval), bound, label, error, record.get("freedom") or math.inf)

    def power(self, true: float) -> float:
        """Probability that an interval such as this one would lie above the bound."""
        return power_above(true, self.bound, self.error, self.freedom)

    def text(self, form: str) -> str:
        """The number and its interval, if it has one."""
        return (
            estimate(self.value, self.interval, form) if self.interval else f"{self.value:{form}}"
        )


@dataclass(frozen=True)
class Judged:
    """The rules' judgement of one result.

    Attributes:
        word: the word by our rule.
        met: whether the paper's own criterion is met; None where it cannot be read off the result.
        measured: the numbers behind both, in a sentence.
        power: probability that our rule decides if the truth is the paper's; None if unknown.
        smallest: the smallest effect that our rule could detect, in words.
        aside: why the result never counts, whatever its power.
        estimates: the numbers of ``measured`` that our rule compares with its bound.
        as_the_paper: the paper's own measure, where our rule judges another one.
        trainings: how many trainings of the model the numbers are means over.
    """

    word: Word
    met: bool | None
    measured: str
    power: float | None = None
    smallest: str = ""
    aside: str = ""
    estimates: Sequence[Estimate] = ()
    as_the_paper: Sequence[Estimate] = ()
    trainings: int = 1


NOTHING_TO_KEEP = Judged(
    "undecided",
    None,
    "The unpruned model, or a resample of its test set, is not above chance.",
    0.0,
    "none: there is nothing to lose",
)
NOT_RUN = Judged("not run", None, "Not measured.")


BY_OTHERS = "measured by others"
"""Why a result of others never counts."""


@dataclass(frozen=True)
class Row:
    """A result, or a part of one, that bears on a claim.

    Attributes:
        name: the paper's name of the table or figure.
        setting: model and task, as pages call them.
        model: the model's name in results; empty if it was not run, or measured by others.
        kind: exploratory where its data were seen when the bounds were fixed, else confirmatory, or
            partly known where other results had shown much of it; empty if it was not run.
    """

    claim: str
    half: str
    name: str
    setting: str
    judged: Judged
    model: str = ""
    kind: str = ""

    @property
    def word(self) -> Word:
        """The word by our rule."""
        return self.judged.word

    @property
    def where(self) -> str:
        """The table or figure, and the setting in which it was measured."""
        return f"{as_in_the_paper(self.name)}: {self.setting}"

    @property
    def criterion(self) -> str:
        """Whether the paper's own criterion is met, in words."""
        return {True: "met", False: "not met", None: "not readable"}[self.judged.met]

    @property
    def counts(self) -> bool:
        """Whether it counts for the claim's word."""
        return self.word != "not run" and not self.why_not

    @property
    def one_way(self) -> bool:
        """Whether it differs by a rule with too little power to say that it replicates."""
        return self.word == "differs" and not self.counts and not self.judged.aside

    @property
    def why_not(self) -> str:
        """Why it does not count; empty where it does."""
        if self.word == "not run" or self.judged.aside:
            return self.judged.aside
        if self.judged.power is None:
            return "its power is not known"
        if self.judged.power < LEAST_POWER:
            power = "its power to replicate is" if self.word == "differs" else "power"
            return f"{power} {self.judged.power:.2f}"
        return ""


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim from its results, at least one.

    ``others`` are results measured by others: they never count.
    """

    rows: Sequence[Row]
    others: Sequence[Row] = ()

    @property
    def claim(self) -> str:
        """The claim that all rows are on."""
        return self.rows[0].claim

    @property
    def word(self) -> Word:
        """The claim's word by :data:`COMBINING`."""
        numbers = Counter(row.word for row in self.counted)
        if not self.measured:
            return "not run"
        if len(numbers) == 1:
            return next(iter(numbers))
        if numbers["mixed"] or (numbers["replicates"] and numbers["differs"]):
            return "mixed"
        if not numbers["differs"] and 2 * numbers["replicates"] >= numbers.total() > 0:
            return "replicates"
        return "undecided"

    @property
    def measured(self) -> tuple[Row, ...]:
        """The results that were run."""
        return tuple(row for row in self.rows if row.word != "not run")

    @property
    def counted(self) -> tuple[Row, ...]:
        """The results that count."""
        return tuple(row for row in self.rows if row.counts)

    @property
    def one_way(self) -> tuple[Row, ...]:
        """The results that differ by a rule with too little power to say that they replicate."""
        return tuple(row for row in self.rows if row.one_way)

    @property
    def met(self) -> tuple[int, int]:
        """For how many results the paper's criterion is met, and for how many it could be read."""
        read = [row.judged.met for row in self.rows if row.judged.met is not None]
        return sum(read), len(read)

    @property
    def criterion(self) -> str:
        """The number of results that meet the paper's criterion, in words."""
        met, read = self.met
        if not read:
            return "not measured"
        readable = sum(row.judged.met is not None for row in self.counted)
        text = f"met in {met} of {read}"
        if readable == len(self.counted):
            return text
        return f"{text}; readable in {readable} of the {len(self.counted)} that count"

    @property
    def how_many_count(self) -> str:
        """The number of measured results that count, in total and by verdict.

        By verdict for each kind of model where their results have different verdicts.
        """
        text = f"{len(self.counted)} of {len(self.measured)} results count"
        total = Counter(row.word for row in self.counted)
        if len(total) < 2 or len({row.half for row in self.counted}) < 2:
            return f"{text}: {_by_word(total)}" if total else text
        sentences = [text]
        for half, model in MODELS.items():
            words = Counter(row.word for row in self.counted if row.half == half)
            several = words.total() > 1
            each = f"{model}s: {_by_word(words)}" if several else f"{model}: {next(iter(words))}"
            sentences.append(each.capitalize())
        return ". ".join(sentences)

    @property
    def why(self) -> str:
        """The number of counted results by word, and of those that do not count, in a sentence."""
        if not self.measured:
            return "Not measured."
        numbers = Counter(row.word for row in self.counted)
        parts = ", ".join(f"{numbers[word]} {word}" for word in WORDS if numbers[word])
        sentence = f"Results that count: {len(self.counted)}{f' ({parts})' if parts else ''}"
        sentence += f"; that do not: {len(self.measured) - len(self.counted)}"
        if n := len(self.one_way):
            differ = agreeing("differs", n)
            sentence += f", {n} of them {differ} with too little power to replicate"
        return f"{sentence}."


def _by_word(words: Mapping[Word, int]) -> str:
    """How many results have each verdict, such as "2 replicate, 1 differs"."""
    return ", ".join(
        f"{words[word]} {agreeing(word, words[word])}" for word in WORDS if words[word]
    )


def defined(*numbers: float | None) -> bool:
    """Whether every number is defined; a stored file has None where one is not."""
    return all(number is not None and math.isfinite(number) for number in numbers)
