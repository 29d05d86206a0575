"""All measurements: ``get`` returns a stored or newly measured result, ``found`` all stored ones.

>>> sorted(MEASUREMENTS)[:4]
['across_domains', 'agreement', 'all_but_one', 'along_training']
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headprune_lib.messages import unknown
from headprune_lib.replication import paper, store
from headprune_lib.replication.data import TASKS, TRANSLATION_TASKS, own_text
from headprune_lib.replication.measurements.base import HALVES, Half, Measurement
from headprune_lib.replication.measurements.obtaining import (
    HALF_OF,
    Request,
    check_task,
    depends,
    flat,
    half_of,
    load_for,
    obtain,
)
from headprune_lib.replication.models.pretrained import BASES
from headprune_lib.replication.profiles import Profile, enter_own, load_profile
from headprune_lib.replication.store import Key, Result

MEASUREMENTS: dict[str, Measurement] = {
    declared.name: declared
    for module in pkgutil.iter_modules(__path__)
    for declared in vars(importlib.import_module(f"{__name__}.{module.name}")).values()
    if isinstance(declared, Measurement)
}
"""All measurements by name: those that the modules of this package declare."""


class Upcoming(NamedTuple):
    """A request that is about to be measured.

    Attributes:
        parts: names of the parts to measure: those not stored, or measured again.
        left_out: trainings of the profile that a run on fewer texts does not measure.
    """

    request: Request
    parts: list[str]
    left_out: list[str]


def get(
    name: str,
    profile: Profile,
    *,
    task: str | None = None,
    parts: Sequence[str] | None = None,
    fresh: bool = False,
    checked: bool = False,
    announce: Callable[[Upcoming], None] | None = None,
) -> Result:
    """Return a result: the stored one if its signatures match, else one measured now.

    A profile given fewer test texts than its own is measured on its first training only.

    Args:
        name: a table or figure of the paper, such as ``"figure1b"``, or a measurement.
        profile: what to measure; see :func:`headprune_lib.replication.profiles.load_profile`.
        task: language pair of a translation measurement; the main one if not given.
        parts: orders of a pruning curve; the profile's own if not given.
        fresh: measure even what is stored, with the weights at hand; if fewer test texts were
            given, only results that depend on their number.
        checked: compare a stored result's outcomes with their SHA-256 as well, and measure damaged
            ones again; its values are read without them.
        announce: called with an ``Upcoming`` before measuring begins.

    Raises:
        ValueError: see ``find_artifact``.
    """
    request, depends_on_number, left_out = find_artifact(name, profile, task, parts).as_asked()

    def begin(missing: list[str]) -> None:
        if announce is not None:
            announce(Upcoming(request, missing, left_out))

    return obtain(request, fresh=fresh and depends_on_number, checked=checked, begin=begin)


def where(
    name: str, profile: Profile, task: str | None = None, parts: Sequence[str] | None = None
) -> Path:
    """The path of the JSON file in which :func:`get` stores a result; takes the same arguments."""
    return find_artifact(name, profile, task, parts).as_asked()[0].path


def asked(
    name: str,
    profile: str = "default",
    *,
    task: str | None = None,
    model: str | None = None,
    parts: Sequence[str] | None = None,
    values: Mapping[str, Any] | None = None,
    **numbers: int | None,
) -> tuple[Profile, str | None]:
    """Turn a command's options into arguments of :func:`get`: the profile and the language pair.

    Args:
        name: a table, figure or measurement; ``all`` for all that a profile measures.
        values: values that override the profile's; see
            :func:`headprune_lib.replication.profiles.load_profile`.
        numbers: ``n_examples``, ``n_verses`` and ``seed``.

    Raises:
        ValueError: an unknown name or a wrong value (the nearest names are suggested), an option or
            value that the measurement does not depend on, or text of another kind of model than
            the measured one. Raised before anything is computed.
    """
    if wrong := sorted(_FIXED & (values := dict(values or {})).keys()):
        raise ValueError(f"{wrong[0]} is no value to set. Choose a profile with --profile")
    fields_set = [field for field, _ in flat(values) if field not in _HOW]
    enter_own(values)
    numbers = {option: value for option, value in numbers.items() if value is not None}
    if name == "all":
        if task is not None or parts is not None:
            raise ValueError("all does not take --task or --by. Give the name of a table or figure")
        translators = load_profile(profile).translators.values()
        names = {model for models in translators for model in models}
        field = "translation_model" if model in names else "model"
        return load_for(HALVES, profile, None, {field: model, **values}, **numbers), None
    halves, half = halves_of(name), _half(name, task)
    check_task(task, profile, halves)
    _check_text(name, half, values.get("data"))
    loaded = load_for([half], profile, task, values, model=model, **numbers)
    pair = task if half == "translation" else None

    def ask(settings: Profile) -> Request:
        return find_artifact(name, settings, pair, parts)

    _, _, settings, task, _ = ask(loaded)
    if half == "translation":
        settings.translator(task)  # refuses an unknown model
    fields_of = HALF_OF[half].options
    given = {option.replace("_", "-"): fields_of.get(option, ()) for option in numbers}
    given |= {f"set {field}": (field,) for field in fields_set}
    for option, fields in given.items():
        if not (fields and depends(ask, loaded, fields)):
            raise ValueError(f"{name} does not depend on --{option}. Leave it out")
    return settings, pair


_FIXED = {"name", "given", "folder", "main_task"}
"""A profile's fields that nobody sets: what it is called, and where its results lie."""
_HOW = {"device", "data", "batch_size", "language.batch_size"}
"""Values that say how or on what something is measured, and are in no signature by their name."""


def _check_text(name: str, half: Half, data: str | None) -> None:
    """Raises ValueError for a user's own text that is of another kind than what is measured."""
    if (text := own_text(data)) is None or HALF_OF[half].task_field in text.fields:
        return
    other = next(each for each, of in HALF_OF.items() if of.task_field in text.fields)
    if other in halves_of(name):
        advice = f"Add --task {text.name}"
    else:
        advice = f"Give other text, or a measurement of {HALF_OF[other].measured}"
    raise ValueError(
        f"{name} measures {HALF_OF[half].measured}, and {text.name} is text for "
        f"{HALF_OF[other].measured}. {advice}"
    )


def halves_of(name: str) -> tuple[Half, ...]:
    """The halves that a table, figure or measurement exists for; ValueError for an unknown name."""
    if name in paper.ARTIFACTS:
        return (paper.ARTIFACTS[name].half,)
    if name not in MEASUREMENTS:
        raise ValueError(unknown("artifact", name, {**paper.ARTIFACTS, **MEASUREMENTS}))
    return MEASUREMENTS[name].halves


def _half(name: str, task: str | None) -> Half:
    halves = halves_of(name)
    translated = task in TRANSLATION_TASKS and "translation" in halves
    return "translation" if translated else halves[0]


def find_artifact(
    name: str, profile: Profile, task: str | None = None, parts: Sequence[str] | None = None
) -> Request:
    """Resolve a name to a measurement, a half of the paper, the profile on its task, and the task.

    Args:
        task: the requested language pair, if any; it selects the translation half of a
            measurement that exists for both halves.
        parts: names of the requested parts, if any.

    Raises:
        ValueError: an unknown name, task, model or part (the nearest ones are suggested), or a
            figure that is about a different task than the requested one.
    """
    half, artifact = _half(name, task), paper.ARTIFACTS.get(name)
    measurement = MEASUREMENTS[artifact.measurement if artifact else name]
    if half == "translation":
        if task is None and artifact is not None:
            main = artifact.task == "enfr"
            task = profile.translation_task if main else profile.training_task
        task = task or profile.translation_task
    else:
        if task is not None:
            raise ValueError(
                f"{name} has no translation task {task!r}. Choose any other task with load_profile"
            )
        if artifact is not None and artifact.task != paper.MAIN:
            wanted = profile.stand_ins.get(artifact.task, artifact.task)
            if wanted != profile.task and "task" in profile.given:
                raise ValueError(
                    f"{name} is about {wanted}, not {profile.task}. "
                    f"Use figure3b with task={profile.task}"
                )
            profile = profile if wanted == profile.task else profile.on(wanted)
        task = HALF_OF[half].task(profile)
    request = Request(measurement, half, profile, task, parts)
    request.check_parts()
    return request


def artifacts(profile: Profile) -> list[str]:
    """The paper's names for all that a profile measures: one name for each result."""
    by_key: dict[Key, str] = {}
    for name, artifact in paper.ARTIFACTS.items():
        if artifact.half in profile.halves:
            by_key.setdefault(find_artifact(name, profile).key, name)
    return list(by_key.values())


def found(*names: str, root: Path | None = None) -> list[Result]:
    """The stored results of measurements on every task with every model, larger models first.

    Args:
        names: measurements, or tables and figures of the paper: these stand for their measurement
            in their half of the paper, whatever the task.
    """
    wanted = {
        (artifact.measurement, artifact.half) if artifact else (name, None)
        for name in names
        for artifact in [paper.ARTIFACTS.get(name)]
    }
    keys = {
        key
        for measurement, half in wanted
        for key in store.find(measurement, root)
        if half in (None, half_of(key))
    }
    results = [store.stored(key, root) for key in sorted(keys, key=_place)]
    return [result for result in results if result is not None]


def _place(key: Key) -> tuple:
    """Sort key: the half, larger models first, tasks in the register's order, then unknown ones."""
    models, tasks = list(BASES), list(TASKS)
    return (
        half_of(key),
        -models.index(key.model) if key.model in models else 0,
        tasks.index(key.task) if key.task in tasks else len(tasks),
        key,
    )
