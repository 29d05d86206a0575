"""From a request to a result: dependencies by half, stored parts, and measuring the others."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import yaml

from headprune_lib.messages import unknown
from headprune_lib.replication import store
from headprune_lib.replication.data import (
    LANGUAGE_TASKS,
    OWN_TEXTS,
    TASKS,
    TRANSLATION_TASKS,
    file_sha256,
    own_pairs,
    own_text,
)
from headprune_lib.replication.engine import everywhere, side_by_side
from headprune_lib.replication.measurements.base import Context, Half, Measurement, Own
from headprune_lib.replication.models.encoders import recipe, weights_path
from headprune_lib.replication.models.pretrained import BASES, LANGUAGE_MODELS
from headprune_lib.replication.models.translators import full_recipe, stored_weights
from headprune_lib.replication.paths import cache_root, models_root, results_root
from headprune_lib.replication.profiles import Profile, Published, load_profile
from headprune_lib.replication.store import Journal, Key, Measured, Part, Result, ResultDamaged
from headprune_lib.replication.store.files import check_writable, locked
from headprune_lib.replication.store.results import part_path

Origins = tuple[list[dict[str, str]], dict[str, str], dict[str, Any]]
"""Checksums of each text, those of base weights, and the recipe of each training."""


class _Reading:
    """The view that a half of the paper, or language models, have of a profile.

    Attributes:
        task_field: the profile's field with the half's task.
        measured: what is measured, in words.
        options: option of the commands -> the arguments of ``load_profile`` that it sets.
    """

    task_field: ClassVar[str]
    measured: ClassVar[str]
    options: ClassVar[dict[str, tuple[str, ...]]]

    def task(self, profile: Profile) -> str:
        """The profile's own task."""
        return getattr(profile, self.task_field)

    def given(self, profile: Profile, task: str) -> str | None:
        """The name of a model that a command must give; None for the profile's usual one."""
        usual = self.model(load_profile(profile.name), task)
        if (model := self.model(profile, task)) == usual:
            return None
        known = BASES | LANGUAGE_MODELS
        if model in known:
            return known[model].given or model
        return profile.given.get("translation_model", model)

    def check_training(self, profile: Profile, task: str, seed: int) -> None:
        """Raise ValueError for a seed that is no further one: the first would count twice."""
        raise ValueError(f"{task} has no training {seed}: its model is not trained here")

    def weights_at_hand(self, profile: Profile, task: str, run: dict[str, Any]) -> Path | None:
        """The file of a run's weights, committed or cached; None if it was not trained here.

        Args:
            run: a result's entry for a training: its seed, and the epoch or update if a checkpoint
                within it was measured.
        """
        return None


class _Encoder(_Reading):
    task_field, measured = "task", "a classifier"
    options: ClassVar = {name: (name,) for name in ("task", "model", "n_examples", "seed")}

    def tasks(self, _profile: str) -> Sequence[str]:
        """All tasks that a profile can have."""
        return [*TASKS]

    def model(self, profile: Profile, _task: str) -> str:
        """The model that is measured on a task."""
        return profile.model

    def check_training(self, profile: Profile, task: str, seed: int) -> None:
        further = [*dict.fromkeys((*profile.seeds[1:], *profile.further_seeds))]
        if seed not in further:
            raise ValueError(
                f"training {seed} is none of the further trainings of {task} with {profile.model} "
                f"({', '.join(map(str, further)) or 'there are none'}). For a training of your "
                f"own, give --seed {seed}"
            )

    def parameters(self, profile: Profile) -> dict[str, Any]:
        """Values in every part's signature if unusual: most profiles skip no test sentences."""
        return {"n_used": profile.n_used} if profile.n_used else {}

    def origins(
        self, profile: Profile, _task: str, own: Own, texts: Sequence[str], *, registered: bool
    ) -> Origins:
        """Where text and weights come from; with ``registered``, the text of committed results."""
        data = [
            TASKS[name].registered if registered else TASKS[name].checksums(profile.data)
            for name in texts
        ]
        tuned = dataclasses.replace(profile, finetuning=own.finetuning or profile.finetuning)
        seeds = own.seeds or (profile.seed,)
        recipes = {f"seed {seed}": recipe(tuned, seed, registered=registered) for seed in seeds}
        return data, BASES[profile.model].checksums, recipes

    def committed(self, profile: Profile, _task: str) -> tuple[Profile, bool]:
        """The profile of committed results, and whether they have these trainings and model."""
        committed = load_profile(profile.name, task=profile.task)
        # Made-up text is committed of random models alone, which are timed on it.
        made_up = profile.task.startswith("synthetic") and BASES[profile.model].build is None
        further = {*profile.further_seeds} <= {*committed.further_seeds}
        return committed, further and not made_up

    def weights_at_hand(self, profile: Profile, _task: str, run: dict[str, Any]) -> Path | None:
        path = weights_path(profile.model, recipe(profile, run["seed"]))
        return path if path.is_file() else None


class _Translation(_Reading):
    task_field, measured = "translation_task", "a translator"
    options: ClassVar = {
        "task": (),  # a profile has several language pairs
        "model": ("translation_model",),
        "n_verses": ("n_verses", "n_headline"),
        "seed": ("translation_seed",),
    }

    def tasks(self, profile: str) -> Sequence[str]:
        return [*load_profile(profile).translators, *own_pairs()]

    def model(self, profile: Profile, task: str) -> str:
        return profile.model_of(task)

    def check_training(self, profile: Profile, task: str, seed: int) -> None:
        profile.check_training(task, seed)
        if seed == profile.trainings(task)[0]:
            raise ValueError(
                f"training {seed} is the first one of {task}, which counts already. Leave out "
                "--by, or name another training"
            )

    def parameters(self, profile: Profile) -> dict[str, Any]:
        # most results are greedy, and do not say so
        return {"beams": profile.beams} if profile.beams > 1 else {}

    def origins(
        self, profile: Profile, task: str, own: Own, texts: Sequence[str], *, registered: bool
    ) -> Origins:
        pairs = [TRANSLATION_TASKS[name] for name in texts]
        data = [read.registered if registered else read.checksums() for read in pairs]
        trained = profile.translator(task)
        recipes = {
            f"seed {seed}": full_recipe(task, trained, seed, final=True, registered=registered)
            for seed in own.seeds or profile.trainings(task)[:1]
        }
        return data, {}, recipes

    def committed(self, profile: Profile, task: str) -> tuple[Profile, bool]:
        model = self.given(profile, task)
        committed = load_profile(profile.name, task=profile.task, translation_model=model)
        known = {*profile.trainings(task)} <= {*committed.trainings(task)}
        trained = profile.translator(task)
        return committed, known and not (isinstance(trained, Published) and trained.folder)

    def weights_at_hand(self, profile: Profile, task: str, run: dict[str, Any]) -> Path | None:
        within = {name: run.get(name) for name in ("epoch", "update")}
        return stored_weights(profile, task, run["seed"], model=profile.model_of(task), **within)


class _Language(_Reading):  # nobody trains these: a signature holds the checksum of their weights
    task_field, measured = "language_task", "a language model"
    options: ClassVar = {"task": ("language_task",), "model": ("language_model",)}

    def tasks(self, profile: str) -> Sequence[str]:
        return [*LANGUAGE_TASKS]

    def model(self, profile: Profile, task: str) -> str:
        return profile.language_model

    def parameters(self, profile: Profile) -> dict[str, Any]:
        return {"length": profile.language.length, "test_tokens": profile.language.test_tokens}

    def origins(
        self, profile: Profile, task: str, own: Own, texts: Sequence[str], *, registered: bool
    ) -> Origins:
        data = [LANGUAGE_TASKS[name].checksums() for name in texts]
        return data, LANGUAGE_MODELS[profile.language_model].checksums, {}

    def committed(self, profile: Profile, task: str) -> tuple[Profile, bool]:
        model = profile.language_model
        own_text = task in OWN_TEXTS or bool(LANGUAGE_MODELS[model].given)
        return load_profile(profile.name, language_task=task, language_model=model), not own_text


HALF_OF: dict[Half, _Encoder | _Translation | _Language] = {
    "encoder": _Encoder(),
    "translation": _Translation(),
    "language": _Language(),
}


def half_of(of: Key | Result) -> Half:
    """The half of the paper that a result belongs to, or ``language``.

    A user's own task may not be registered now; the result itself, other than its key, tells.
    """
    if of.measurement.startswith("language_"):
        return "language"
    parts = of.parts.values() if isinstance(of, Result) else ()
    trained_whole = any(part.signature.get("weights") == {} for part in parts)  # on no base weights
    return "translation" if of.task in TRANSLATION_TASKS or trained_whole else "encoder"


def load_for(
    halves: Sequence[Half],
    profile: str,
    task: str | None,
    values: Mapping[str, Any],
    **options: Any,
) -> Profile:
    """Load a profile with the options and values given to a command.

    Args:
        halves: the halves in which the options apply; each maps them to its own fields.
        task: the task; a language pair is no value of a profile.
        values: fields of the profile to override.
        options: options of the halves; None for those not given.

    Raises:
        ValueError: a name or value that the profile refuses (the nearest names are suggested), or a
            field that is given twice.
    """
    options_given = {
        field: value
        for half in halves
        for option, value in {"task": task, **options}.items()
        for field in HALF_OF[half].options.get(option, ())
        if value is not None
    }
    if twice := options_given.keys() & values.keys():
        raise ValueError(f"{', '.join(sorted(twice))}: given twice, by an option and by --set")
    return load_profile(profile, **options_given, **values)


def check_task(task: str | None, profile: str, halves: Sequence[Half]) -> None:
    """Raises ValueError for a task that none of the halves has, and suggests the nearest ones."""
    known = {name for half in halves for name in HALF_OF[half].tasks(profile)}
    if task is not None and task not in known:
        raise ValueError(unknown("task", task, known))


# --- requests -------------------------------------------------------------------------------------


class Request(NamedTuple):
    """A measurement with a profile on a task, of one half of the paper or of language models.

    Attributes:
        by: names of the parts that are asked for; None for all that there are for the profile.
    """

    measurement: Measurement
    half: Half
    profile: Profile
    task: str
    by: Sequence[str] | None = None

    @property
    def key(self) -> Key:
        """The key under which the result is stored."""
        model = HALF_OF[self.half].model(self.profile, self.task)
        return Key(self.measurement.name, self.task, model)

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts that the measurement has for the profile."""
        return self.measurement.parts(self.profile, self.half, self.task)

    @property
    def path(self) -> Path:
        """The JSON file that the result is stored in: the committed one, or one of the cache."""
        return self.key.path(self.folder(self.signatures()))

    def signature(self, part: str, *, registered: bool = False) -> dict[str, Any]:
        """The signature of a part: parameters, data, base weights and training recipes.

        Args:
            registered: use the text that committed results were measured on, whatever is at hand.
        """
        measurement, half, profile, task, _ = self
        asked = measurement.own(profile, half, part)
        parameters = {
            "task": task,
            "model": self.key.model,
            **measurement.parameters(profile, half),
            **HALF_OF[half].parameters(profile),
        }
        values = {**asked.values, "needs": {needed.name: needed.version for needed in asked.needs}}
        texts = measurement.texts(profile, half, task)
        data, weights, recipes = HALF_OF[half].origins(
            profile, task, asked, texts, registered=registered
        )
        checksums = {path: sha256 for files in data for path, sha256 in files.items()}
        return store.make_signature(
            measurement.version, parameters, values, checksums, weights, recipes
        )

    def signatures(self) -> dict[str, dict[str, Any]]:
        """The signature of each part that is asked for."""
        return {name: self.signature(name) for name in (self.parts if self.by is None else self.by)}

    def folder(self, signatures: Mapping[str, dict[str, Any]]) -> Path:
        """The folder where the result is stored.

        A result with a user's own parameters must not overwrite the committed one, nor may a
        user's own training join those of the profile.
        """
        committed, listed = HALF_OF[self.half].committed(self.profile, self.task)
        # A profile that names a source of its text is measured on what is fetched from there.
        fetched = committed.data is not None
        usual = self._replace(profile=committed)
        standard = (
            listed
            and (not fetched or self.profile.data == committed.data)
            and all(
                signed["digest"] == usual.signature(name, registered=not fetched)["digest"]
                for name, signed in signatures.items()
            )
        )
        if standard:
            return results_folder(self.profile)
        # the default parts name the folder, whichever are requested: others join them in one figure
        every = self._replace(by=None).signatures()
        digests = "".join(sorted(signed["digest"] for signed in every.values()))
        return cache_root() / "results" / hashlib.sha256(digests.encode()).hexdigest()[:12]

    def command(self) -> str:
        """The command that measures the result again."""
        of, profile, task = HALF_OF[self.half], self.profile, self.task
        words = ["headprune reproduce", self.measurement.name, f"--profile {profile.name}"]
        if self.half == "translation" or task != of.task(load_profile(profile.name)):
            words.append(f"--task {task}")
        words += [f"--model {_from_home(each)}" for each in [of.given(profile, task)] if each]
        words += [f"--by {name!r}" for name in self.by or ()]
        return " ".join([*words, *self._values_given()])

    def _values_given(self) -> Iterator[str]:
        """The command-line options for the values given in place of the profile's.

        Values that the measurement does not depend on, which a page may set too, are left out.
        """
        profile, options = self.profile, HALF_OF[self.half].options
        numbers = {name: of for name, of in options.items() if name not in ("task", "model")}
        elsewhere = {
            field for of in HALF_OF.values() for some in of.options.values() for field in some
        }
        elsewhere -= {field for fields in numbers.values() for field in fields}
        text = own_text(profile.given.get("data"))
        elsewhere |= text.fields.keys() if text else set()
        left = {name: value for name, value in profile.given.items() if name not in elsewhere}
        usual = load_profile(profile.name)
        for option, fields in numbers.items():
            if len(values := {left.get(field) for field in fields}) == 1 and None not in values:
                left = {name: value for name, value in left.items() if name not in fields}
                if self.depends(fields):
                    yield f"--{option.replace('_', '-')} {values.pop()}"
        for name in ("data", "device"):
            value = left.pop(name, None)
            if value not in (None, getattr(usual, name)):
                yield f"--{name} {_from_home(value)}"
        for name, value in flat(left):
            if self.depends([name]):
                written = yaml.safe_dump(value, default_flow_style=True, width=1000)
                written = written.removesuffix("...\n").strip()
                yield f"--set {shlex.quote(f'{name}={written}')}"

    def depends(self, fields: Sequence[str]) -> bool:
        """Whether the result would be another without the values given for some fields."""
        return depends(lambda other: self._replace(profile=other), self.profile, fields)

    def check_parts(self) -> None:
        """Raises ValueError for a part that the measurement does not have."""
        measurement, half, profile, task, names = self
        usual = self.parts
        for name in names or ():
            if name in usual:
                continue
            # refuses a name that is no order's; a measurement that reads no names returns the same
            if measurement.own(profile, half, name) == measurement.own(profile, half, usual[0]):
                raise ValueError(f"{measurement.name} has no part {name!r}. Leave out --by")
            if match := re.search(r"(?:^| )training (\d+)$", name):
                HALF_OF[half].check_training(profile, task, int(match[1]))

    def as_asked(self) -> tuple[Request, bool, list[str]]:
        """Restrict a run that asks for fewer test texts than its profile has to what it needs.

        If the result depends on the number of texts, it needs only the first training; if not, the
        stored result is used. Choices on training text and tests on other domains use no more texts
        than are tested.

        Returns:
            the request, whether the result depends on the requested number, and the trainings that
            are left out, such as ``["seed 2"]``. Parts that are asked for by name stay, and so does
            a profile that asks for no fewer.
        """
        profile, usual = self.profile, load_profile(self.profile.name, task=self.profile.task)
        less = [
            name
            for name in ("n_examples", "n_verses", "n_headline")
            if (asked := profile.given.get(name)) is not None
            and asked < (getattr(usual, name) or float("inf"))
        ]
        if not less or self.by is not None:
            return self, True, []
        if not self.depends(less):
            return self, False, []
        if self.half == "translation":
            first_seed = profile.trainings(self.task)[0]
            first = dataclasses.replace(profile, translation_seed=first_seed)
        else:
            first = dataclasses.replace(profile, seeds=profile.seeds[:1])
            if "n_examples" in less:  # n_verses limits choices and other domains, too
                limits = {
                    name: min(getattr(profile, name) or math.inf, profile.given["n_examples"])
                    for name in ("n_selection", "n_domain")
                    if name not in profile.given
                }
                first = dataclasses.replace(first, **limits)
        request = self._replace(profile=first)
        left_out = _trainings(self.signatures()) - _trainings(request.signatures())
        return request, True, sorted(left_out)


def depends(
    ask: Callable[[Profile], Request],
    profile: Profile,
    fields: Sequence[str],
) -> bool:
    """Whether the result would be another without the values given for some fields.

    A value that is the profile's own counts.

    Args:
        ask: returns the request with a profile.
        fields: names such as ``speed.share``.
    """
    given = left = profile.given
    for name in fields:
        left = without(left, name)
    changed = [left]
    if {*fields} <= given.keys() and all(type(given[name]) is int for name in fields):
        # a number may be what the measurement takes anyway: the first training's seed
        changed.append({**given, **{name: given[name] + 1 for name in fields}})
    try:
        usual, *others = (load_profile(profile.name, **values) for values in (given, *changed))
        first, *asked = ((each.key, each.signatures()) for each in map(ask, (usual, *others)))
    except ValueError:  # nothing can be measured without it
        return True
    return usual in others or any(each != first for each in asked)


def results_folder(profile: Profile) -> Path:
    """The folder of a profile's standard results: those on made-up text are kept apart."""
    return results_root() / profile.folder


def _from_home(path: str) -> str:
    """A name or path quoted for a shell, with ``~`` in place of the home folder."""
    home = f"{Path.home()}/"
    return f"{'~/' * path.startswith(home)}{shlex.quote(path.removeprefix(home))}"


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Names and values of nested sections, as ``--set`` takes them.

    >>> list(flat({"steps": 5, "speed": {"repetitions": 2}}))
    [('steps', 5), ('speed.repetitions', 2)]
    """
    for name, value in values.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def without(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The values without one of a nested section.

    >>> without({"steps": 5, "speed": {"share": 0.1, "repetitions": 2}}, "speed.share")
    {'steps': 5, 'speed': {'repetitions': 2}}
    """
    first, _, rest = name.partition(".")
    if rest:
        return {**values, first: without(values[first], rest)}
    return {each: value for each, value in values.items() if each != first}


def _trainings(signatures: Mapping[str, dict[str, Any]]) -> set[str]:
    return {seed for signed in signatures.values() for seed in signed["recipe"]}


# --- stored, or measured now ----------------------------------------------------------------------


def obtain(
    request: Request,
    *,
    fresh: bool = False,
    checked: bool = False,
    begin: Callable[[list[str]], None] = lambda _missing: None,
) -> Result:
    """Return the stored result if its parts' signatures match; measure and save missing parts.

    Stored parts that were not requested stay if they were measured on the same examples. If only
    the statistics changed, values are computed anew from the stored outcomes. A damaged result, or
    a part of it, is set aside with a warning and measured again. The result is returned as read
    back, so that pages are the same on the machine that measured and on any other.

    Args:
        fresh: measure all requested parts.
        checked: read the outcomes of a stored result that fits too, and not its values alone.
        begin: called with the names of the parts to be measured, before the first is measured.

    Raises:
        OtherWeights: a stored part was measured on other weights than the committed ones.
    """
    measurement, half, profile, *_ = request
    signatures, key = request.signatures(), request.key
    root, command = request.folder(signatures), request.command()
    fingerprint = store.fingerprint(measurement.name, measurement.statistics[half])
    kept = _stored(key, root, command)
    usable = _usable(kept, request, signatures, fresh, root)
    digests = "".join(signed["digest"] for signed in signatures.values())
    digest = hashlib.sha256(digests.encode()).hexdigest()[:16]
    folder = cache_root() / "journals" / key.measurement
    journal = Journal(folder / f"{key.task}.{key.model}-{digest}")

    def is_whole() -> bool:
        current = kept is not None and kept.statistics == fingerprint
        return current and {*signatures} <= {*usable} == {*kept.parts}

    if checked or not is_whole():
        usable = _readable(usable)
    if is_whole():
        journal.finish()
        return kept
    missing = [name for name in signatures if name not in usable]
    if missing:
        check_writable(key.path(root).parent, folder)
        begin(missing)
    journal.lap()
    measures = [
        partial(_measured, request, name, signatures[name], journal, command) for name in missing
    ]
    done = side_by_side(measures, "/".join(key))
    measured = {name: part for name, (part, _) in zip(missing, done, strict=True)}
    about = done[-1][1] if done else kept
    # Another process may have stored parts since, or be about to: the lock keeps others from
    # storing this result between our reading it again and our saving it.
    with locked(key.path(root)):
        if kept := _stored(key, root, command):
            usable |= _readable(_usable(kept, request, signatures, fresh, root))
            for name in measured.keys() & kept.parts.keys():  # when they were first seen
                before = kept.parts[name].provenance
                first = before.get("first_measured", before["date"])
                measured[name].provenance["first_measured"] = first
        every = usable | measured
        every = {name: every[name] for name in dict.fromkeys([*signatures, *every])}
        store.save(
            Result(
                *(*key, profile.name),
                *(about.dataset, about.n_examples, about.metric, about.unit),
                values=measurement.values_of(half, every),
                statistics=fingerprint,
                parts=every,
            ),
            root,
        )
        result = store.load(key, root)
    journal.finish()
    return result


def _measured(
    request: Request,
    part: str,
    signature: dict[str, Any],
    journal: Journal,
    command: str,
) -> tuple[Part, Measured]:
    """Measure a part; return it with what was measured."""
    measurement, half, profile, task, _ = request
    needs = {needed.name: needed for needed in measurement.own(profile, half, part).needs}

    def get(name: str, parts: Sequence[str] | None = None) -> Result:
        return obtain(request._replace(measurement=needs[name], by=parts))

    measured = measurement.measure(Context(half, profile, task, journal, get), part)
    devices = everywhere(store.computing_on, profile.device)
    provenance = store.provenance(command, journal.lap(), devices)
    runs = store.plain(measured.runs, "runs")
    return Part(signature, runs, provenance, measured.raw), measured


def _stored(key: Key, root: Path, command: str) -> Result | None:
    try:
        return store.load(key, root, command)
    except FileNotFoundError:
        return None
    except ResultDamaged as error:
        warnings.warn(str(error), stacklevel=3)
        return None


def _usable(
    kept: Result | None, request: Request, signatures: Mapping[str, dict], fresh: bool, root: Path
) -> dict[str, Part]:
    """The stored parts that can be kept.

    Raises:
        OtherWeights: see :func:`check_weights`.
    """
    shared = [_shared(signature) for signature in signatures.values()]
    usable = {}
    for name, part in kept.parts.items() if kept else ():
        if name in signatures:
            stays = not fresh and part.signature.get("digest") == signatures[name]["digest"]
        else:
            stays = all(_shared(part.signature) == other for other in shared)
        # a file that is gone was damaged, and set aside
        if stays and part_path(request.key.path(root), name).exists():
            usable[name] = part
    for name, part in usable.items():
        check_weights(request, name, part)
    return usable


def _readable(parts: Mapping[str, Part]) -> dict[str, Part]:
    """The parts whose outcomes can be read; others are set aside, with a warning."""
    readable = {}
    for name, part in parts.items():
        try:
            _ = part.raw
        except ResultDamaged as error:
            warnings.warn(str(error), stacklevel=3)
        else:
            readable[name] = part
    return readable


def _shared(signature: Mapping[str, Any]) -> list[Any]:
    """What all parts of a result share: version, parameters, text and pretrained weights."""
    return [signature.get(name) for name in ("measurement", "parameters", "data", "weights")]


# --- the weights that a result was measured on ------------------------------------------------------


class OtherWeights(ValueError):
    """The committed weights are not those that a committed result was measured on."""


def check_weights(request: Request, name: str, part: Part) -> None:
    """Compare the weights at hand with those that a stored part was measured on.

    A signature holds how a model was trained, not the weights: the same training on another
    machine gives different ones. Weights in the cache were trained here, and may well differ from
    those of a result that was measured elsewhere: this gives a warning.

    Raises:
        OtherWeights: the weights at hand are committed, and differ.
    """
    _, half, profile, task, _ = request
    for run in part.runs:
        measured = run.get("weights_sha256")
        path = HALF_OF[half].weights_at_hand(profile, task, run) if measured else None
        if path is None or (digest := file_sha256(path)) == measured:
            continue
        message = (
            f"{path} has SHA-256 {digest}, and part {name} of {'/'.join(request.key)} was measured "
            f"on {measured}"
        )
        usual = request.parts
        command = request._replace(by=None if name in usual else [*usual, name]).command()
        if path.parent == models_root():
            raise OtherWeights(
                f"{message}. Put the committed file back (`git checkout`), or measure again with: "
                f"{command}"
            )
        warnings.warn(
            f"{message}: trainings by one recipe end with different weights on different machines. "
            f"Measure the weights at hand with: {command}",
            stacklevel=2,
        )
