"""Profiles: named sets of parameters (the YAML files beside this one), one code for all."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from importlib import resources
from typing import Literal

import yaml

from headprune_lib.bases import BASES
from headprune_lib.data import TASKS
from headprune_lib.naming import unknown
from headprune_lib.paths import absolute
from headprune_lib.translation.recipe import Recipe, Shape

PROFILES = ("smoke", "default", "base")


@dataclass(frozen=True)
class Finetuning:
    """Recipe of a fine-tuning; part of every result's signature."""

    epochs: int
    batch_size: int
    learning_rate: float
    warmup: float
    weight_decay: float
    max_length: int
    n_train: int | None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "learning_rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; give a number above 0")


@dataclass(frozen=True)
class Speed:
    """What Table 4 times."""

    batch_sizes: list[int]
    n_sentences: int
    repetitions: int
    share: float
    shape: str
    shape_length: int
    shape_sentences: int


@dataclass(frozen=True)
class Profile:
    """Everything a measurement depends on but the device. Fields: see ``default.yml``."""

    name: str
    main_task: str
    figure_tasks: dict[str, str]
    task: str
    model: str
    seeds: list[int]
    domains: list[str]
    n_examples: int | None
    n_domain: int
    n_scoring: int
    n_selection: int
    batch_size: int
    steps: int
    random_orders: int
    orders: Literal["every", "importance"]
    finetuning: Finetuning
    translation_task: str
    translation_far: str
    training_task: str
    translation_seed: int
    n_verses: int
    n_headline: int | None
    translation_orders: int
    translation: dict[str, Recipe]
    speed: Speed
    device: str = "cpu"
    data: str | None = None
    given: dict = field(default_factory=dict, compare=False, repr=False)
    """The values that were given in place of the profile's."""

    @property
    def seed(self) -> int:
        """The seed whose fine-tuning the single-model artifacts use."""
        return self.seeds[0]

    def on(self, task: str) -> Profile:
        """The same profile, with the same values of one's own, on another task."""
        return load_profile(self.name, **{**self.given, "task": task})


def load_profile(name: str = "default", *, seed: int | None = None, **overrides) -> Profile:
    """A profile by name, with values of your own in place of its values.

    Args:
        name: ``"smoke"``, ``"default"`` or ``"base"``.
        seed: this fine-tuning first, in place of the profile's first one.
        overrides: fields of :class:`Profile`; ``None`` leaves the profile's value.

    Raises:
        ValueError: an unknown profile, task, model or field (the nearest names are suggested), or
            a number of examples or verses that is not positive.
    """
    if name not in PROFILES:
        raise ValueError(unknown("profile", name, PROFILES))
    known = [field.name for field in dataclasses.fields(Profile)]
    given = {field: value for field, value in overrides.items() if value is not None}
    for name_given in overrides:
        if name_given not in known:
            raise ValueError(unknown("parameter", name_given, known))
    values = _read(name)
    values["main_task"] = values["task"]
    elsewhere, task = values.pop("tasks"), given.get("task", values["task"])
    if task != values["task"]:
        values = merged(values, elsewhere.get(task, {}))
    values |= given
    values["given"] = {**given, **({} if seed is None else {"seed": seed})}
    if seed is not None:
        values["seeds"] = [seed, *(other for other in values["seeds"] if other != seed)]
    if values["task"] not in TASKS:
        raise ValueError(unknown("task", values["task"], TASKS))
    for domain in values["domains"]:
        if domain not in TASKS:
            raise ValueError(unknown("domain", domain, TASKS))
    if values["model"] not in BASES:
        raise ValueError(unknown("model", values["model"], BASES))
    for size in ("n_examples", "n_verses", "n_headline", "n_domain", "n_scoring", "n_selection"):
        if values[size] is not None and values[size] < 1:
            raise ValueError(f"{size} is {values[size]}; give at least 1, or null for all")
    if values.get("data") not in (None, "hub"):  # notebooks run in a folder of their own
        values["data"] = str(absolute(values["data"]))
    values["finetuning"] = Finetuning(**values["finetuning"])
    values["speed"] = Speed(**values["speed"])
    values["translation"] = {task: Recipe(**{**recipe, "shape": Shape(**recipe["shape"])})
                             for task, recipe in values["translation"].items()}
    return Profile(name=name, **values)


def _read(name: str) -> dict:
    """A profile's file over the one that it extends."""
    values = yaml.safe_load(resources.files(__name__).joinpath(f"{name}.yml").read_text("utf-8"))
    return merged(_read(values.pop("extends")), values) if "extends" in values else values


def merged(values: dict, over: dict) -> dict:
    """``values`` with those of ``over`` in their place, section by section.

    >>> merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 5}})
    {'a': {'b': 5, 'c': 2}, 'd': 3}
    """
    return values | {name: merged(values[name], value)
                     if isinstance(value, dict) and isinstance(values.get(name), dict) else value
                     for name, value in over.items()}


def main_tasks(profile: str, artifact: str) -> set[str]:
    """The tasks for which an artifact's file carries no task in its name."""
    settings = load_profile(profile)
    if artifact in settings.figure_tasks:
        return {settings.figure_tasks[artifact]}
    return {settings.main_task, settings.translation_task, settings.training_task}
