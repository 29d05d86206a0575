"""Measurements: a decorated function that measures, and a summary of its outcomes.

.. code-block:: python

    @measurement("largest", version=1, parameters=["n_scoring"])
    def largest(context):
        subject = context.subject()
        return subject.measured({"scores": ...})

    @largest.summary
    def _(raw):
        return {"largest": raw["scores"].max(1)}

Each function names the arguments that it needs and receives no others.
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
"""A half of the paper, or language models, which the paper does not have."""
HALVES: tuple[Half, ...] = ("encoder", "translation")
"""The halves of the paper."""
Runs = Mapping[str, list[dict[str, Any]]]
"""Part of a result -> an entry for each of its trainings."""


@dataclass(frozen=True)
class Context:
    """The context in which a part is measured.

    Attributes:
        task: the language pair in the translation half, ``profile.task`` in the encoder half,
            ``profile.language_task`` for language models.
        get: ``(measurement, part names or None) -> Result``: another measurement that the part
            needs, on the same task with the same model.
    """

    half: Half
    profile: Profile
    task: str
    journal: Journal
    get: Callable[..., Result]

    def subject(self, seed: int | None = None, **how: Any) -> Any:
        """The half's trained model with its texts; see ``setups``.

        Args:
            seed: the training's seed; the first one if not given.
            how: a ``kernel``; for translators also the ``epoch`` or ``update`` of a checkpoint.

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
        """Compute outcomes that the rest of the measurement builds on, such as an order of heads.

        A verification continues from the stored ones, and compares them with the computed ones: a
        number that differs only by rounding does not change everything after it.

        Args:
            names: names of the outcomes; ``*`` matches any characters.
            compute: returns the outcomes by name.
            costly: whether a verification takes the stored ones without computing them.
        """
        return compute()

    def settled_under(self, prefix: str, compute: Callable[[], Arrays]) -> Arrays:
        """As :meth:`settled`, for outcomes stored under a prefix; returned without it."""
        arrays = self.settled([f"{prefix}*"], lambda: prefixed(prefix, compute()))
        return unprefixed(prefix, arrays)


@dataclass(frozen=True)
class Own:
    """The settings that one part depends on.

    Attributes:
        values: values besides those that all parts depend on.
        seeds: seeds of the measured trainings; only the first if not given.
        needs: measurements whose outcomes the part uses.
        finetuning: recipe of its models' fine-tuning, if not the profile's.
    """

    values: dict[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] | None = None
    needs: tuple[Measurement, ...] = ()
    finetuning: Finetuning | None = None


def _undeclared(*_: Any) -> dict[str, Any]:
    raise NotImplementedError("there is no function for the values. Declare one with summary")


class Constants(SimpleNamespace):
    """The constants of one summary, by name."""


@dataclass(eq=False)
class Measurement:
    """One kind of measurement, as :func:`measurement` declares it.

    Attributes:
        name: such as ``"pruning_curve"``.
        version: bumped by hand when the measurement's meaning changes.
        statistics: half -> all constants that ``summarise`` reads; values are computed anew when
            their fingerprint changes.
        halves: the halves that it exists for.
        parameters: ``(profile, half) -> values`` that all parts depend on.
        measure: ``(context, part) -> Measured``.
        parts: ``(profile, half, task) -> names`` of the parts measured by default.
        own: ``(profile, half, part)`` -> the part's own settings, an :class:`Own`.
        texts: ``(profile, half, task) -> names`` of the tasks whose text is read, ``task`` first.
        summarise: ``(half, outcomes, runs, statistics) -> values``, without model or data.
    """

    name: str
    version: int
    statistics: Mapping[str, Any]
    halves: tuple[Half, ...]
    parameters: Callable[[Profile, Half], dict[str, Any]]
    measure: Callable[[Context, str], Measured]
    parts: Callable[[Profile, Half, str], tuple[str, ...]]
    own: Callable[[Profile, Half, str], Own]
    texts: Callable[[Profile, Half, str], tuple[str, ...]]
    summarise: Callable[[Half, Outcomes, Runs, Any], dict[str, Any]] = field(
        default=_undeclared, init=False
    )

    def values_of(self, half: Half, parts: Mapping[str, Part]) -> dict[str, Any]:
        """The summary's values for the outcomes of some parts."""
        outcomes = {name: part.raw for name, part in parts.items()}
        runs = {name: part.runs for name, part in parts.items()}
        return self.summarise(half, outcomes, runs, self.statistics[half])

    def summary(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator for the function that computes values; it receives what it names.

        A function that names ``raw`` is called with the outcomes of each training. The values are
        those of the first one, with those of the others by part name in ``further``; if only
        further trainings were requested, ``further`` is all there is.
        """
        if "raw" not in inspect.signature(function).parameters:
            self.summarise = _given(function, "half", "outcomes", "runs", "statistics")
            return function
        of_training = _given(function, "half", "raw", "statistics")

        def summarise(half: Half, outcomes: Outcomes, _runs: Runs, statistics: Any) -> dict:
            further = {name: of_training(half, raw, statistics) for name, raw in outcomes.items()}
            first = further.pop(OUTCOMES, {})
            return {**first, "further": further} if further else first

        self.summarise = summarise
        return function


def measurement(
    name: str,
    *,
    version: int,
    parameters: Sequence[str] | Mapping[Half, Sequence[str]] | Callable[..., dict[str, Any]],
    statistics: Any = Constants(),  # noqa: B008, nobody changes it
    halves: tuple[Half, ...] = ("encoder",),
    parts: Callable[..., tuple[str, ...]] = lambda: (OUTCOMES,),
    own: Callable[..., Own] = lambda: Own(),  # noqa: PLW0108, Own itself takes arguments
    texts: Callable[..., tuple[str, ...]] = lambda task: (task,),
) -> Callable[[Callable[..., Measured]], Measurement]:
    """Decorator that declares a measurement; its summary follows (:meth:`Measurement.summary`).

    Functions receive those of the arguments in :class:`Measurement` that they name.

    Args:
        parameters: names of the profile's values that all parts depend on, a dict of them by half
            where the halves differ, or a function.
        statistics: the constants of the summary, ``Constants`` or a dataclass; a dict of them by
            half where the halves differ.
    """

    def read(profile: Profile, half: Half) -> dict[str, Any]:
        names = parameters[half] if isinstance(parameters, Mapping) else parameters
        return {name: getattr(profile, name) for name in names}

    def declare(measure: Callable[..., Measured]) -> Measurement:
        return Measurement(
            name,
            version,
            statistics if isinstance(statistics, dict) else dict.fromkeys(halves, statistics),
            halves,
            _given(parameters if callable(parameters) else read, "profile", "half"),
            _given(measure, "context", "part"),
            _given(parts, "profile", "half", "task"),
            _given(own, "profile", "half", "part"),
            _given(texts, "profile", "half", "task"),
        )

    return declare


def _given(function: Callable[..., Any], *offered: str) -> Callable[..., Any]:
    """Wrap ``function`` to take all offered arguments and receive those that it names.

    A leading underscore of a name is ignored. Raises TypeError for a name that is not offered.
    """
    names = [name.lstrip("_") for name in inspect.signature(function).parameters]
    if unknown := sorted({*names} - {*offered}):
        raise TypeError(
            f"{function.__qualname__} has unknown parameters {', '.join(unknown)}. "
            f"Use some of {', '.join(offered)}"
        )
    positions = [offered.index(name) for name in names]
    return lambda *arguments: function(*(arguments[position] for position in positions))


# --- parts named after a training, ``"training 2"``, and the first training's part ----------------


def seed_of(part: str) -> int | None:
    """The seed of the training that a part names; None for the first training's part.

    Raises:
        ValueError: the name is not a training's.
    """
    return None if part == OUTCOMES else seed_in(part)


def of_training(part: str) -> Own:
    """The own settings of a part named after a training: its seed."""
    seed = seed_of(part)
    return Own(seeds=None if seed is None else (seed,))
