"""What a result depends on, half by half: its model, its text, and how the model was trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from headprune_lib.messages import unknown
from headprune_lib.replication.data import LANGUAGE_TASKS, TASKS, TRANSLATION_TASKS
from headprune_lib.replication.measurements.measurement import Half, Own
from headprune_lib.replication.models.encoders import recipe
from headprune_lib.replication.models.pretrained import BASES, LANGUAGE_MODELS
from headprune_lib.replication.models.translators import final_recipe
from headprune_lib.replication.profiles import Profile, load_profile

Checksums = dict[str, str]
Origins = tuple[list[Checksums], Checksums, dict[str, Any]]
"""Checksums of each text, those of base weights, and the recipe of each training."""


class HalfOf(Protocol):
    """What one half of the paper, or language models beside it, read of a profile."""

    def task(self, profile: Profile) -> str:
        """The profile's own."""

    def usual(self, profile: Profile) -> str | None:
        """The task that a command need not name."""

    def model(self, profile: Profile, task: str) -> str:
        """The one that is measured on a task."""

    def given(self, profile: Profile, task: str) -> list[str]:
        """The model's name, where a command must say it."""

    def parameters(self, profile: Profile) -> dict[str, Any]:
        """What every part's signature says where it is not the usual."""

    def origins(
        self, profile: Profile, task: str, own: Own, texts: Sequence[str], *, registered: bool
    ) -> Origins:
        """Where text and weights come from; ``registered``: the text of committed results."""

    def committed(self, profile: Profile, task: str) -> tuple[Profile, bool]:
        """The profile as committed results have it, and whether it has these trainings."""


class _Encoder:
    def task(self, profile: Profile) -> str:
        return profile.task

    def usual(self, profile: Profile) -> str | None:
        return profile.main_task

    def model(self, profile: Profile, task: str) -> str:
        return profile.model

    def given(self, profile: Profile, task: str) -> list[str]:
        own = load_profile(profile.name).model
        return [] if profile.model == own else [profile.model]

    def parameters(self, profile: Profile) -> dict[str, Any]:
        # most results pass nothing over, and do not say so
        return {"n_used": profile.n_used} if profile.n_used else {}

    def origins(
        self, profile: Profile, task: str, own: Own, texts: Sequence[str], *, registered: bool
    ) -> Origins:
        data = [
            TASKS[name].registered if registered else TASKS[name].checksums(profile.data)
            for name in texts
        ]
        tuned = dataclasses.replace(profile, finetuning=own.finetuning or profile.finetuning)
        seeds = own.seeds or (profile.seed,)
        recipes = {f"seed {seed}": recipe(tuned, seed, registered=registered) for seed in seeds}
        return data, BASES[profile.model].checksums, recipes

    def committed(self, profile: Profile, task: str) -> tuple[Profile, bool]:
        committed = load_profile(profile.name, task=profile.task)
        return committed, {*profile.further_seeds} <= {*committed.further_seeds}


class _Translation:
    def task(self, profile: Profile) -> str:
        return profile.translation_task

    def usual(self, profile: Profile) -> str | None:
        return None

    def model(self, profile: Profile, task: str) -> str:
        return profile.model_of(task)

    def given(self, profile: Profile, task: str) -> list[str]:
        own = load_profile(profile.name).model_of(task)
        return [] if profile.model_of(task) == own else [profile.model_of(task)]

    def parameters(self, profile: Profile) -> dict[str, Any]:
        # most results are greedy, and do not say so
        return {"beams": profile.beams} if profile.beams > 1 else {}

    def origins(
        self, profile: Profile, task: str, own: Own, texts: Sequence[str], *, registered: bool
    ) -> Origins:
        read = [TRANSLATION_TASKS[name] for name in texts]
        data = [one.registered if registered else one.checksums for one in read]
        trained = profile.translator(task, profile.model_of(task))
        recipes = {
            f"seed {seed}": final_recipe(task, trained, seed, registered=registered)
            for seed in own.seeds or profile.trainings(task)[:1]
        }
        return data, {}, recipes

    def committed(self, profile: Profile, task: str) -> tuple[Profile, bool]:
        own, model = load_profile(profile.name).model_of(task), profile.model_of(task)
        committed = load_profile(
            profile.name, task=profile.task, translation_model=None if model == own else model
        )
        return committed, {*profile.trainings(task)} <= {*committed.trainings(task)}


class _Language:
    def task(self, profile: Profile) -> str:
        return profile.language_task

    def usual(self, profile: Profile) -> str | None:
        return load_profile(profile.name).language_task

    def model(self, profile: Profile, task: str) -> str:
        return profile.language_model

    def given(self, profile: Profile, task: str) -> list[str]:
        own = load_profile(profile.name).language_model
        return [] if profile.language_model == own else [profile.language_model]

    def parameters(self, profile: Profile) -> dict[str, Any]:
        return {"length": profile.language.length, "test_tokens": profile.language.test_tokens}

    def origins(
        self, profile: Profile, task: str, own: Own, texts: Sequence[str], *, registered: bool
    ) -> Origins:
        data = [LANGUAGE_TASKS[name].checksums for name in texts]
        return data, LANGUAGE_MODELS[profile.language_model].checksums, {}

    def committed(self, profile: Profile, task: str) -> tuple[Profile, bool]:
        model = (self.given(profile, task) or [None])[0]
        return load_profile(profile.name, language_task=task, language_model=model), True


HALF_OF: dict[Half, HalfOf] = {
    "encoder": _Encoder(),
    "translation": _Translation(),
    "language": _Language(),
}
FIELDS: dict[Half, dict[str, tuple[str, ...]]] = {
    "encoder": {
        "task": ("task",),
        "model": ("model",),
        "n_examples": ("n_examples",),
        "seed": ("seed",),
    },
    "translation": {
        "task": (),  # a profile has several pairs of languages
        "model": ("translation_model",),
        "n_verses": ("n_verses", "n_headline"),
        "seed": ("translation_seed",),
    },
    "language": {"task": ("language_task",), "model": ("language_model",)},
}
"""Half -> an option of the commands -> the arguments of ``load_profile`` that it stands for."""


def load_for(
    halves: Sequence[Half],
    profile: str,
    task: str | None,
    values: Mapping[str, Any],
    **options: Any,
) -> Profile:
    """A profile with what a command was given.

    Args:
        halves: what an option means, of each half.
        task: a pair of languages is checked alone, for it is no value of a profile.
        values: fields of a profile, in place of its own values.
        options: those of ``FIELDS``; None where one was not given.

    Raises:
        ValueError: a name or value that the profile refuses (the nearest names are suggested), or a
            field that is given twice.
    """
    given = {
        field: value
        for half in halves
        for option, value in {"task": task, **options}.items()
        for field in FIELDS[half].get(option, ())
        if value is not None
    }
    if twice := given.keys() & values.keys():
        raise ValueError(f"{', '.join(sorted(twice))}: given twice, by an option and by --set")
    settings = load_profile(profile, **given, **values)
    if halves == ["translation"] and task is not None:
        settings.translator(task, settings.model_of(task))
    return settings


def check_task(task: str | None, profile: str, halves: Sequence[Half]) -> None:
    """Raises ValueError for a task that is in none of some halves, and suggests the nearest ones."""
    known: set[str] = set()
    known |= {*TASKS} if "encoder" in halves else set()
    known |= {*load_profile(profile).translators} if "translation" in halves else set()
    known |= {*LANGUAGE_TASKS} if "language" in halves else set()
    if task is not None and task not in known:
        raise ValueError(unknown("task", task, known))
