"""What is measured: ``get`` returns a result, stored or measured; ``found`` all that are stored.

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
from headprune_lib.replication.data import TASKS, TRANSLATION_TASKS
from headprune_lib.replication.measurements.base import HALVES, Half, Measurement
from headprune_lib.replication.measurements.obtaining import (
    HALF_OF,
    Request,
    check_task,
    half_of,
    load_for,
    obtain,
)
from headprune_lib.replication.models.pretrained import BASES
from headprune_lib.replication.profiles import Profile, enter_own, load_profile
from headprune_lib.replication.store import Key, Result


def _declared() -> dict[str, Measurement]:
    """Those that the modules of this package declare."""
    modules = [
        importlib.import_module(f"{__name__}.{module.name}")
        for module in pkgutil.iter_modules(__path__)
    ]
    declared = [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, Measurement)
    ]
    return {measurement.name: measurement for measurement in declared}


MEASUREMENTS: dict[str, Measurement] = _declared()


class Upcoming(NamedTuple):
    """What is about to be measured.

    Attributes:
        parts: names of those that are not stored, or measured again.
        left_out: trainings that the profile has and a run on fewer texts does not measure.
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
    announce: Callable[[Upcoming], None] | None = None,
) -> Result:
    """A result: the stored one if its signatures fit, else measured now.

    A profile that was given fewer test texts than its own is measured on the first training alone.

    Args:
        name: of a table or figure of the paper, such as ``"figure1b"``, or of a measurement.
        profile: what to measure; see :func:`headprune_lib.replication.profiles.load_profile`.
        task: of a translation measurement, the pair of languages; the main one if not given.
        parts: orders of a pruning curve; the profile's own if not given.
        fresh: measure in any case, with the weights at hand; where fewer test texts were given, what
            depends on them.
        announce: told what is about to be measured; see ``Upcoming``.

    Raises:
        ValueError: see ``find_artifact``.
    """
    request, left_out = find_artifact(name, profile, task, parts), []
    if parts is None:
        profile, depends, left_out = request.as_asked()
        request, fresh = request._replace(profile=profile), fresh and depends

    def begin(missing: list[str]) -> None:
        if announce is not None:
            announce(Upcoming(request, missing, left_out))

    return obtain(request, parts=parts, fresh=fresh, begin=begin)


def where(
    name: str, profile: Profile, task: str | None = None, parts: Sequence[str] | None = None
) -> Path:
    """The JSON file that :func:`get` stores a result in; arguments as there."""
    request = find_artifact(name, profile, task, parts)
    if parts is None:
        request = request._replace(profile=request.as_asked()[0])
    return request.key.path(request.folder(request.signatures(parts)))


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
    """What a command asks for, as :func:`get` takes it: the profile, and the pair of languages.

    Args:
        name: of a table, figure or measurement; ``all`` for those of a profile.
        values: in place of the profile's; see
            :func:`headprune_lib.replication.profiles.load_profile`.
        numbers: ``n_examples``, ``n_verses`` and ``seed``.

    Raises:
        ValueError: an unknown name or a wrong value (the nearest names are suggested), or an option
            that the measurement does not depend on. Nothing has been computed then.
    """
    enter_own(values := dict(values or {}))
    numbers = {option: value for option, value in numbers.items() if value is not None}
    if name == "all":
        if task is not None or parts is not None:
            raise ValueError("all takes no --task and no --by; name the table or figure")
        translators = load_profile(profile).translators.values()
        names = {model for models in translators for model in models}
        field = "translation_model" if model in names else "model"
        return load_for(HALVES, profile, None, {field: model, **values}, **numbers), None
    halves, half = halves_of(name), _half(name, task)
    check_task(task, profile, halves)
    options = HALF_OF[half].options
    for option in numbers.keys() - options.keys():
        raise ValueError(_unused(name, option))
    settings = load_for([half], profile, task, values, model=model, **numbers)
    pair = task if half == "translation" else None
    request = find_artifact(name, settings, pair, parts)
    _, half, settings, task = request
    if half == "translation":
        settings.translator(task, settings.model_of(task))  # refuses an unknown model
    for option in numbers:
        if not request.depends_on(options[option], parts):
            raise ValueError(_unused(name, option))
    return settings, pair


def _unused(name: str, option: str) -> str:
    return f"{name} does not depend on --{option.replace('_', '-')}; leave it out"


def halves_of(name: str) -> tuple[Half, ...]:
    """Those that a table, figure or measurement exists for; ValueError for an unknown name."""
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
    """What a name means: measurement, half of the paper, the profile on its task, and that task.

    Args:
        task: a pair of languages, where one is asked for: of a measurement that exists for both
            halves, it tells which one is meant.
        parts: names of parts, where some are asked for.

    Raises:
        ValueError: an unknown name, task, model or part (the nearest ones are suggested), or a
            figure that is about another task than the one that is asked for.
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
            raise ValueError(f"{name} has no translation models, and {task} is a task of these")
        if artifact is not None and artifact.task != paper.MAIN:
            profile = _on(profile, name, profile.stand_ins.get(artifact.task, artifact.task))
        task = HALF_OF[half].task(profile)
    request = Request(measurement, half, profile, task)
    request.check_parts(parts or ())
    return request


def artifacts(profile: Profile) -> list[str]:
    """The paper's names of all that a profile measures; tables and figures of one result once."""
    by_key: dict[Key, str] = {}
    for name, artifact in paper.ARTIFACTS.items():
        if artifact.half in profile.halves:
            by_key.setdefault(find_artifact(name, profile).key, name)
    return list(by_key.values())


def _on(profile: Profile, name: str, task: str) -> Profile:
    """The profile on the task that a figure of the paper is about."""
    if task == profile.task:
        return profile
    if "task" in profile.given:
        raise ValueError(
            f"{name} is about {task}, not {profile.task}; "
            f"for this task, give figure3b with task={profile.task}"
        )
    return profile.on(task)


def found(*names: str, root: Path | None = None) -> list[Result]:
    """The stored results of a measurement on every task with every model, the larger models first.

    Args:
        names: of measurements, or of tables and figures of the paper: these stand for their
            measurement in their half of the paper, whatever the task.
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
    """Larger models first, then tasks as the register has them; what is not in it, by name."""
    models, tasks = list(BASES), list(TASKS)
    return (
        half_of(key),
        -models.index(key.model) if key.model in models else 0,
        tasks.index(key.task) if key.task in tasks else len(tasks),
        key,
    )
