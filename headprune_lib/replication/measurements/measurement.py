"""What the library must know to measure something on a task with a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from headprune_lib.replication.profiles import Finetuning, Profile
from headprune_lib.replication.store import OUTCOMES, Journal, Measured, Outcomes, Result

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
        get: ``(measurement, part names or None) -> Result``: another measurement on the same task
            with the same model.
    """

    half: Half
    profile: Profile
    task: str
    journal: Journal
    get: Callable[..., Result]


def _only(_profile: Profile, _half: Half, _task: str) -> tuple[str, ...]:
    return (OUTCOMES,)


def _nothing(_profile: Profile, _half: Half, _part: str) -> Own:
    return Own()


def _own_text(_profile: Profile, _half: Half, task: str) -> tuple[str, ...]:
    return (task,)


@dataclass(frozen=True)
class Measurement:
    """One kind of measurement.

    Attributes:
        name: such as ``"pruning_curve"``.
        version: bumped by hand when the measurement's meaning changes.
        statistics: half -> a dataclass of all constants that ``summarise`` reads; its fingerprint
            tells when values must be computed anew.
        parameters: ``(profile, half) -> values`` that all parts depend on.
        measure: ``(context, part) -> Measured``.
        summarise: ``(half, outcomes, runs, statistics) -> values``, without model or data.
        halves: those of the paper that it exists for.
        parts: ``(profile, half, task) -> names`` of the parts that a page wants.
        own: ``(profile, half, part)`` -> what that part depends on besides.
        texts: ``(profile, half, task) -> names`` of the tasks whose text is read, the own one first.
    """

    name: str
    version: int
    statistics: Mapping[str, Any]
    parameters: Callable[[Profile, Half], dict[str, Any]]
    measure: Callable[[Context, str], Measured]
    summarise: Callable[[Half, Outcomes, Runs, Any], dict[str, Any]]
    halves: tuple[Half, ...] = ("encoder",)
    parts: Callable[[Profile, Half, str], tuple[str, ...]] = _only
    own: Callable[[Profile, Half, str], Own] = _nothing
    texts: Callable[[Profile, Half, str], tuple[str, ...]] = _own_text


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
