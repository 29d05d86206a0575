"""From a measurement and a profile to a result: signatures, the journal, and where it is kept."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from headprune_lib.replication import store
from headprune_lib.replication.engine import everywhere
from headprune_lib.replication.measurements.halves import FIELDS, HALF_OF
from headprune_lib.replication.measurements.measurement import Context, Half, Measurement
from headprune_lib.replication.measurements.trained import check_weights
from headprune_lib.replication.paths import cache_root, results_root
from headprune_lib.replication.profiles import Profile, load_profile
from headprune_lib.replication.store import Journal, Key, Measured, Part, Result, Wanted

Get = Callable[..., Result]
"""``(measurement, part names or None) -> Result``."""


def obtain(
    measurement: Measurement,
    half: Half,
    profile: Profile,
    task: str,
    *,
    parts: Sequence[str] | None,
    fresh: bool,
    get: Get,
    begin: Callable[[list[str]], None] = lambda _missing: None,
) -> Result:
    """The stored result if it fits, else measured now; see :func:`headprune_lib.replication.store.obtain`.

    Args:
        parts: names of parts; those that the measurement has for the profile if not given.
        get: gives the result of another measurement on the same task with the same model.
        begin: told the names of the parts to be measured, before the first of them is.
    """
    signatures = _signatures_of(measurement, half, profile, task, parts)
    digest = hashlib.sha256(
        "".join(one["digest"] for one in signatures.values()).encode()
    ).hexdigest()
    key = key_of(measurement, half, profile, task)
    journal = Journal(
        cache_root() / "journals" / key.measurement / f"{key.task}.{key.model}-{digest[:16]}"
    )
    command = command_of(measurement, half, profile, task, parts)
    context = Context(half, profile, task, journal, get)

    def measure(name: str) -> tuple[Measured, dict[str, Any]]:
        started, resumed = time.perf_counter(), journal.resumed_seconds
        found = measurement.measure(context, name)
        seconds = time.perf_counter() - started + journal.resumed_seconds - resumed
        devices = everywhere(store.computing_on, profile.device)
        return found, store.provenance(command, seconds, devices)

    def check(name: str, part: Part) -> None:
        usual = measurement.parts(profile, half, task)
        again = None if name in usual else [*usual, name]
        check_weights(
            half,
            profile,
            task,
            part,
            what=f"part {name} of {'/'.join(key)}",
            command=command_of(measurement, half, profile, task, again),
        )

    statistics = measurement.statistics[half]
    result = store.obtain(
        Wanted(
            key,
            profile.name,
            signatures,
            store.fingerprint(measurement.name, statistics),
            measure,
            lambda outcomes, runs: measurement.summarise(half, outcomes, runs, statistics),
            command,
            check,
            begin,
        ),
        fresh=fresh,
        root=_root(measurement, half, profile, task, signatures),
    )
    journal.finish()
    return result


LIMITS = ("n_examples", "n_verses", "n_headline")
"""How much of a test text is measured on; whoever gives less than the profile is in a hurry."""


def as_asked(
    measurement: Measurement, half: Half, profile: Profile, task: str
) -> tuple[Profile, bool, list[str]]:
    """What a run that asks for fewer test texts than its profile has needs of a result.

    It needs the first training alone of what depends on the number of texts, and nothing else: a
    result that does not depend on it stands as it is stored. Choices on training text are made on
    no more of it than is tested.

    Returns:
        the profile to measure with, whether the result depends on what is asked for, and the
        trainings that are left out, such as ``["seed 2"]``. A profile that asks for no less is
        given back as it is.
    """
    usual = load_profile(profile.name, task=profile.task)
    less = [
        name
        for name in LIMITS
        if (asked := profile.given.get(name)) is not None
        and asked < (getattr(usual, name) or float("inf"))
    ]
    if not less:
        return profile, True, []
    whole = dataclasses.replace(profile, **{name: getattr(usual, name) for name in less})
    signatures = _signatures_of(measurement, half, profile, task)
    if signatures == _signatures_of(measurement, half, whole, task):
        return profile, False, []
    first = dataclasses.replace(profile, seeds=profile.seeds[:1])
    if (
        "n_examples" in less and "n_selection" not in profile.given
    ):  # as n_verses limits choices too
        n_selection = min(profile.n_selection, profile.given["n_examples"])
        first = dataclasses.replace(first, n_selection=n_selection)
    if half == "translation":
        first = dataclasses.replace(profile, translation_seed=profile.trainings(task)[0])
    left_out = _trainings(signatures) - _trainings(_signatures_of(measurement, half, first, task))
    return first, True, sorted(left_out)


def _signatures_of(
    measurement: Measurement,
    half: Half,
    profile: Profile,
    task: str,
    parts: Sequence[str] | None = None,
) -> dict[str, dict[str, Any]]:
    """The signature of each part; of those that the measurement has for the profile if not given."""
    names = measurement.parts(profile, half, task) if parts is None else parts
    return {name: signature(measurement, half, profile, task, name) for name in names}


def _trainings(signatures: Mapping[str, dict]) -> set[str]:
    return {seed for one in signatures.values() for seed in one["recipe"]}


def path_of(measurement: Measurement, half: Half, profile: Profile, task: str) -> Path:
    """The JSON file that a result is stored in: the committed one, or one of the cache."""
    signatures = _signatures_of(measurement, half, profile, task)
    return key_of(measurement, half, profile, task).path(
        _root(measurement, half, profile, task, signatures)
    )


def key_of(measurement: Measurement, half: Half, profile: Profile, task: str) -> Key:
    """What the result is stored under."""
    return Key(measurement.name, task, HALF_OF[half].model(profile, task))


def command_of(
    measurement: Measurement,
    half: Half,
    profile: Profile,
    task: str,
    parts: Sequence[str] | None = None,
) -> str:
    """What measures it again."""
    words = ["headprune reproduce", measurement.name, f"--profile {profile.name}"]
    words += [f"--task {task}"] if task != HALF_OF[half].usual(profile) else []
    words += [f"--model {name}" for name in HALF_OF[half].given(profile, task)]
    words += [f"--by {name!r}" for name in parts or ()]
    return " ".join([*words, *_values_given(measurement, half, profile, task, parts)])


def _values_given(
    measurement: Measurement, half: Half, profile: Profile, task: str, parts: Sequence[str] | None
) -> Iterator[str]:
    """The options by which a command gives what was given in place of the profile's values.

    But for what the measurement does not depend on, which a page may have been given, too.
    """
    numbers = {name: of for name, of in FIELDS[half].items() if name not in ("task", "model")}
    elsewhere = {field for fields in FIELDS.values() for of in fields.values() for field in of}
    elsewhere -= {field for of in numbers.values() for field in of}
    left = {name: value for name, value in profile.given.items() if name not in elsewhere}
    usual = load_profile(profile.name, task=profile.task)
    for option, fields in numbers.items():
        if len(values := {left.get(field) for field in fields}) == 1 and None not in values:
            if depends_on(fields, measurement, half, profile, task, parts):
                yield f"--{option.replace('_', '-')} {values.pop()}"
            left = {name: value for name, value in left.items() if name not in fields}
    for name in ("data", "device"):
        value = left.pop(name, None)
        if value not in (None, getattr(usual, name)):
            home = f"{Path.home()}/"
            yield f"--{name} {'~/' * value.startswith(home)}{shlex.quote(value.removeprefix(home))}"
    for name, value in _flat(left):
        written = yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix("...\n")
        yield f"--set {shlex.quote(f'{name}={written.strip()}')}"


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Names of values in sections, as ``--set`` takes them.

    >>> list(_flat({"steps": 5, "speed": {"repetitions": 2}}))
    [('steps', 5), ('speed.repetitions', 2)]
    """
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def signature(
    measurement: Measurement,
    half: Half,
    profile: Profile,
    task: str,
    part: str,
    *,
    registered: bool = False,
) -> dict:
    """What a stored part must agree with: parameters, data, base weights, training recipes.

    Args:
        registered: with the text that committed results were measured on, whatever is at hand.
    """
    own = measurement.own(profile, half, part)
    parameters = {
        "task": task,
        "model": key_of(measurement, half, profile, task).model,
        **measurement.parameters(profile, half),
        **HALF_OF[half].parameters(profile),
    }
    values = {**own.values, "needs": {one.name: one.version for one in own.needs}}
    texts = measurement.texts(profile, half, task)
    data, weights, recipes = HALF_OF[half].origins(profile, task, own, texts, registered=registered)
    return store.make_signature(
        measurement.version,
        parameters,
        values,
        {path: sha for checksums in data for path, sha in checksums.items()},
        weights,
        recipes,
    )


def check_parts(
    names: Sequence[str], measurement: Measurement, half: Half, profile: Profile, task: str
) -> None:
    """Raises ValueError for a part that a measurement does not have."""
    usual = measurement.parts(profile, half, task)
    for name in names:
        if name in usual:
            continue
        # refuses what is no name of an order; a measurement that reads no names gives the same
        if measurement.own(profile, half, name) == measurement.own(profile, half, usual[0]):
            raise ValueError(f"{measurement.name} has no parts such as {name!r}; leave out --by")
        if half == "translation" and (found := re.search(r"(?:^| )training (\d+)$", name)):
            profile.check_training(task, int(found[1]))


def depends_on(
    fields: Sequence[str],
    measurement: Measurement,
    half: Half,
    profile: Profile,
    task: str,
    parts: Sequence[str] | None,
) -> bool:
    """Whether any part would be another one without the whole numbers given for some fields.

    Or with numbers greater by one: what was given may be the profile's own value.
    """

    def digests(given: dict[str, Any]) -> dict[str, str] | None:
        try:
            other = load_profile(profile.name, **given)
            names = measurement.parts(other, half, task) if parts is None else parts
            return {n: signature(measurement, half, other, task, n)["digest"] for n in names}
        except ValueError:  # of a number that the part cannot be measured with
            return None

    given = profile.given
    without = {name: value for name, value in given.items() if name not in fields}
    greater = {name: value + 1 if name in fields else value for name, value in given.items()}
    return any(digests(other) != digests(given) for other in (without, greater))


def results_folder(profile: Profile) -> Path:
    """Where standard results of a profile are: those of made-up text are kept apart."""
    return results_root() / profile.folder


def _root(
    measurement: Measurement, half: Half, profile: Profile, task: str, signatures: dict[str, dict]
) -> Path:
    """A result with parameters of one's own must not overwrite the committed one.

    Nor may a training of one's own join those of the profile.
    """
    committed, listed = HALF_OF[half].committed(profile, task)
    # A profile that names where its text comes from is measured on what is fetched from there.
    fetched = committed.data is not None
    standard = (
        listed
        and (not fetched or profile.data == committed.data)
        and all(
            one["digest"]
            == signature(measurement, half, committed, task, name, registered=not fetched)["digest"]
            for name, one in signatures.items()
        )
    )
    if standard:
        return results_folder(profile)
    own = hashlib.sha256("".join(sorted(one["digest"] for one in signatures.values())).encode())
    return cache_root() / "results" / own.hexdigest()[:12]
