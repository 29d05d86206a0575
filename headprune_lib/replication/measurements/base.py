"""What a measurement is: a function that measures, with a decorator, and a summary of its outcomes.

.. code-block:: python

    @measurement("largest", version=1, parameters=["n_scoring"])
    def largest(context):
        subject = context.subject()
        return subject.measured({"scores": ...})

    @largest.summary
    def _(raw):
        return {"largest": raw["scores"].max(1)}

Each function names the arguments that it needs and is given no others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

from headprune_lib.replication.lazy import setups
from headprune_lib.replication.order_names import seed_in
from headprune_lib.replication.profiles import Finetuning, Profile
from headprune_lib.replication.store import (
    OUTCOMES,
    Arrays,
    Journal,
    Measured,
    Outcomes,
    Part,
    Result,
    prefixed,
    unprefixed,
)

Half = Literal["encoder", "translation", "language"]
"""A half of the paper, or language models, of which the paper has none."""
HALVES: tuple[Half, ...] = ("encoder", "translation")
"""Those of the paper."""
Runs = Mapping[str, list[dict[str, Any]]]
"""The trainings of every part of a result."""


@dataclass(frozen=True)
class Context:
    """What measuring a part may use.

    Attributes:
        task: of the translation half, the pair of languages; of the encoder half ``profile.task``,
            of language models ``profile.language_task``.
        get: ``(measurement, part names or None) -> Result``: a measurement that the part needs, on
            the same task with the same model.
    """

    half: Half
    profile: Profile
    task: str
    journal: Journal
    get: Callable[..., Result]

    def subject(self, seed: int | None = None, **how: Any) -> Any:
        """The trained model with its texts, as the half has them; see ``setups``.

        Args:
            seed: of the training; the first one if not given.
            how: a ``kernel``; of translators the ``epoch`` or ``update`` of what a training kept.

        Raises:
            ValueError: the profile has no such training of a translator.
        """
        if self.half == "encoder":
            return setups.EncoderSubject.of(self.profile, seed, **how)
        if self.half == "language":
            return setups.LanguageSubject.of(self.profile, self.task)
        if seed is not None:
            self.profile.check_training(self.task, seed)
        return setups.TranslationSubject.of(self.profile, self.task, seed, **how)

    def settled(
        self, names: Sequence[str], compute: Callable[[], Arrays], *, costly: bool = False
    ) -> Arrays:
        """Outcomes that measuring goes on from, such as an order of heads: what is computed.

        A verification goes on from those that are stored, once they were compared with what is
        computed; so a number that is found again to a rounding does not change all that follow.

        Args:
            names: of the outcomes; ``*`` stands for any letters.
            compute: gives them by name.
            costly: whether a verification takes what is stored without computing it.
        """
        return compute()

    def settled_under(self, prefix: str, compute: Callable[[], Arrays]) -> Arrays:
        """As :meth:`settled`, of outcomes that are stored under a prefix; given without it."""
        arrays = self.settled([f"{prefix}*"], lambda: prefixed(prefix, compute()))
        return unprefixed(prefix, arrays)


@dataclass(frozen=True)
class Own:
    """What of a profile a part depends on.

    Attributes:
        values: besides what all parts depend on.
        seeds: of the trainings that are measured; the first alone if not given.
        needs: measurements whose outcomes go into it.
        finetuning: how its models are fine-tuned, where not as the profile says.
    """

    values: dict[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] | None = None
    needs: tuple[Measurement, ...] = ()
    finetuning: Finetuning | None = None


def _undeclared() -> dict[str, Any]:
    raise NotImplementedError("declare what follows from the outcomes, with the decorator summary")


class Constants(SimpleNamespace):
    """Those of one summary, by name."""


@dataclass(eq=False)
class Measurement:
    """One kind of measurement. Functions are given those of the arguments below that they name.

    Attributes:
        name: such as ``"pruning_curve"``.
        version: bumped by hand when the measurement's meaning changes.
        statistics: half -> all constants that ``summarise`` reads; their fingerprint tells when
            values must be computed anew.
        parameters: ``(profile, half) -> values`` that all parts depend on.
        measure: ``(context, part) -> Measured``.
        summarise: ``(half, outcomes, runs, statistics) -> values``, without model or data.
        halves: those of the paper that it exists for.
        parts: ``(profile, half, task) -> names`` of the parts that a page wants.
        own: ``(profile, half, part)`` -> what that part depends on besides, an :class:`Own`.
        texts: ``(profile, half, task) -> names`` of the tasks whose text is read, the own one first.
    """

    name: str
    version: int
    statistics: Mapping[str, Any]
    parameters: Callable[..., dict[str, Any]]
    measure: Callable[..., Measured]
    summarise: Callable[..., Any]
    halves: tuple[Half, ...] = ("encoder",)
    parts: Callable[..., tuple[str, ...]] = lambda: (OUTCOMES,)
    own: Callable[..., Own] = lambda: Own()  # noqa: PLW0108, Own itself takes arguments
    texts: Callable[..., tuple[str, ...]] = lambda task: (task,)

    def __post_init__(self) -> None:
        self.parameters = _given(self.parameters, "profile", "half")
        self.measure = _given(self.measure, "context", "part")
        self.parts = _given(self.parts, "profile", "half", "task")
        self.own = _given(self.own, "profile", "half", "part")
        self.texts = _given(self.texts, "profile", "half", "task")
        self.summary(self.summarise)

    def values_of(self, half: Half, parts: Mapping[str, Part]) -> dict[str, Any]:
        """What the summary makes of the outcomes of some parts."""
        outcomes = {name: part.raw for name, part in parts.items()}
        runs = {name: part.runs for name, part in parts.items()}
        return self.summarise(half, outcomes, runs, self.statistics[half])

    def summary(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Declare, as a decorator, what values follow from the outcomes.

        A function that names ``raw`` is given the outcomes of one training after another. Its values
        are those of the first one, and ``further`` has those of the others by the names of their
        parts; where a further one was asked for by itself, ``further`` is all there is.
        """
        if "raw" not in inspect.signature(function).parameters:
            self.summarise = _given(function, "half", "outcomes", "runs", "statistics")
            return function
        of_training = _given(function, "half", "raw", "statistics")

        def summarise(half: Half, outcomes: Outcomes, statistics: Any) -> dict[str, Any]:
            further = {name: of_training(half, raw, statistics) for name, raw in outcomes.items()}
            first = further.pop(OUTCOMES, {})
            return {**first, "further": further} if further else first

        self.summarise = _given(summarise, "half", "outcomes", "runs", "statistics")
        return function


def measurement(
    name: str,
    *,
    version: int,
    parameters: Sequence[str] | Mapping[Half, Sequence[str]] | Callable[..., dict[str, Any]],
    statistics: Any = Constants(),  # noqa: B008, nobody changes it
    halves: tuple[Half, ...] = ("encoder",),
    **further: Callable[..., Any],
) -> Callable[[Callable[..., Measured]], Measurement]:
    """Declare that a function measures something; its summary follows (:meth:`Measurement.summary`).

    Args:
        parameters: names of the profile's values that all parts depend on, a dict of those of each
            half where these differ, or a function as in :class:`Measurement`.
        statistics: the constants of the summary, ``Constants`` or a dataclass; a dict of those
            of each half where these differ.
        further: ``parts``, ``own`` and ``texts`` as in :class:`Measurement`.
    """

    def read(profile: Profile, half: Half) -> dict[str, Any]:
        names = parameters[half] if isinstance(parameters, Mapping) else parameters
        return {name: getattr(profile, name) for name in names}

    def declare(measure: Callable[..., Measured]) -> Measurement:
        return Measurement(
            name,
            version,
            statistics if isinstance(statistics, dict) else dict.fromkeys(halves, statistics),
            parameters if callable(parameters) else read,
            measure,
            _undeclared,
            halves,
            **further,
        )

    return declare


def _given(function: Callable[..., Any], *offered: str) -> Callable[..., Any]:
    """A function of all that is offered, which hands on those arguments that ``function`` names.

    An underscore before a name is not counted. Raises TypeError for a name that is not offered.
    """
    named = [name.lstrip("_") for name in inspect.signature(function).parameters]
    if unknown := {*named} - {*offered}:
        raise TypeError(
            f"{function.__qualname__} takes {', '.join(sorted(unknown))}; name some of "
            f"{', '.join(offered)}"
        )

    def call(*arguments: Any) -> Any:
        by_name = dict(zip(offered, arguments, strict=True))
        return function(*(by_name[name] for name in named))

    # what it takes itself, for a measurement that is copied with its functions
    parameters = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in offered
    ]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


# --- parts that are named after a training, ``"training 2"``, beside the first one's ---------------------


def seed_of(part: str) -> int | None:
    """The training that a part names; None of the first one's, which names none.

    Raises:
        ValueError: the name is no training's.
    """
    return None if part == OUTCOMES else seed_in(part)


def of_training(part: str) -> Own:
    """What such a part depends on besides: the training."""
    seed = seed_of(part)
    return Own(seeds=None if seed is None else (seed,))
