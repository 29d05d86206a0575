"""What a result depends on, half by half: its model, its text, and how the model was trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from headprune_lib.messages import unknown
from headprune_lib.replication.data import (
    LANGUAGE_TASKS,
    OWN_TEXTS,
    TASKS,
    TRANSLATION_TASKS,
    own_pairs,
)
from headprune_lib.replication.measurements.base import Half, Own
from headprune_lib.replication.models.encoders import recipe, weights_path
from headprune_lib.replication.models.pretrained import BASES, LANGUAGE_MODELS
from headprune_lib.replication.models.translators import full_recipe, stored_weights
from headprune_lib.replication.profiles import Profile, Published, load_profile
from headprune_lib.replication.store import Key

Checksums = dict[str, str]
Origins = tuple[list[Checksums], Checksums, dict[str, Any]]
"""Checksums of each text, those of base weights, and the recipe of each training."""


class _Reading:
    """What a half reads of a profile, and so do language models.

    Attributes:
        task_field: the profile's field with its own task.
        options: an option of the commands -> the arguments of ``load_profile`` it stands for.
    """

    task_field: ClassVar[str]
    options: ClassVar[dict[str, tuple[str, ...]]]

    def task(self, profile: Profile) -> str:
        """The profile's own."""
        return getattr(profile, self.task_field)

    def usual(self, profile: Profile) -> str | None:
        """The task that a command need not name."""
        return self.task(load_profile(profile.name))

    def given(self, profile: Profile, task: str) -> str | None:
        """The model's name, where it is not the profile's usual one and a command must say it."""
        usual = self.model(load_profile(profile.name), task)
        if (model := self.model(profile, task)) == usual:
            return None
        known = BASES | LANGUAGE_MODELS
        if model in known:
            return known[model].given or model
        return profile.given.get("translation_model", model)


class _Encoder(_Reading):
    task_field = "task"
    options: ClassVar = {name: (name,) for name in ("task", "model", "n_examples", "seed")}

    def tasks(self, _profile: str) -> Sequence[str]:
        """All that a profile may be about."""
        return [*TASKS]

    def model(self, profile: Profile, _task: str) -> str:
        """The one that is measured on a task."""
        return profile.model

    def parameters(self, profile: Profile) -> dict[str, Any]:
        """What every part's signature says where it is not the usual: most pass nothing over."""
        return {"n_used": profile.n_used} if profile.n_used else {}

    def origins(
        self, profile: Profile, _task: str, own: Own, texts: Sequence[str], *, registered: bool
    ) -> Origins:
        """Where text and weights come from; ``registered``: the text of committed results."""
        data = [
            TASKS[name].registered if registered else TASKS[name].checksums(profile.data)
            for name in texts
        ]
        tuned = dataclasses.replace(profile, finetuning=own.finetuning or profile.finetuning)
        seeds = own.seeds or (profile.seed,)
        recipes = {f"seed {seed}": recipe(tuned, seed, registered=registered) for seed in seeds}
        return data, BASES[profile.model].checksums, recipes

    def committed(self, profile: Profile, _task: str) -> tuple[Profile, bool]:
        """The profile as committed results have it, and whether they have these trainings and model."""
        committed = load_profile(profile.name, task=profile.task)
        return committed, {*profile.further_seeds} <= {*committed.further_seeds}

    def weights_at_hand(self, profile: Profile, _task: str, run: dict[str, Any]) -> Path | None:
        """The file of a run's weights, committed or cached; None where nobody has trained it here.

        Args:
            run: an entry of a result: the seed of a training, and the epoch or the update if it was
                measured within it.
        """
        path = weights_path(profile.model, recipe(profile, run["seed"]))
        return path if path.is_file() else None


class _Translation(_Reading):
    task_field = "translation_task"
    options: ClassVar = {
        "task": (),  # a profile has several pairs of languages
        "model": ("translation_model",),
        "n_verses": ("n_verses", "n_headline"),
        "seed": ("translation_seed",),
    }

    def usual(self, _profile: Profile) -> None:
        return None

    def tasks(self, profile: str) -> Sequence[str]:
        return [*load_profile(profile).translators, *own_pairs()]

    def model(self, profile: Profile, task: str) -> str:
        return profile.model_of(task)

    def parameters(self, profile: Profile) -> dict[str, Any]:
        # most results are greedy, and do not say so
        return {"beams": profile.beams} if profile.beams > 1 else {}

    def origins(
        self, profile: Profile, task: str, own: Own, texts: Sequence[str], *, registered: bool
    ) -> Origins:
        pairs = [TRANSLATION_TASKS[name] for name in texts]
        data = [read.registered if registered else read.checksums for read in pairs]
        trained = profile.translator(task, profile.model_of(task))
        recipes = {
            f"seed {seed}": full_recipe(task, trained, seed, final=True, registered=registered)
            for seed in own.seeds or profile.trainings(task)[:1]
        }
        return data, {}, recipes

    def committed(self, profile: Profile, task: str) -> tuple[Profile, bool]:
        model = self.given(profile, task)
        committed = load_profile(profile.name, task=profile.task, translation_model=model)
        known = {*profile.trainings(task)} <= {*committed.trainings(task)}
        trained = profile.translator(task, profile.model_of(task))
        return committed, known and not (isinstance(trained, Published) and trained.folder)

    def weights_at_hand(self, profile: Profile, task: str, run: dict[str, Any]) -> Path | None:
        within = {name: run.get(name) for name in ("epoch", "update")}
        return stored_weights(profile, task, run["seed"], model=profile.model_of(task), **within)


class _Language(_Reading):
    task_field = "language_task"
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
        data = [LANGUAGE_TASKS[name].checksums for name in texts]
        return data, LANGUAGE_MODELS[profile.language_model].checksums, {}

    def committed(self, profile: Profile, task: str) -> tuple[Profile, bool]:
        model = profile.language_model
        own_text = task in OWN_TEXTS or bool(LANGUAGE_MODELS[model].given)
        return load_profile(profile.name, language_task=task, language_model=model), not own_text

    def weights_at_hand(self, profile: Profile, task: str, run: dict[str, Any]) -> Path | None:
        return None  # nobody trains these: a signature holds the checksum of their weights


HALF_OF: dict[Half, _Encoder | _Translation | _Language] = {
    "encoder": _Encoder(),
    "translation": _Translation(),
    "language": _Language(),
}


def half_of(key: Key) -> Half:
    """The half of the paper that a result belongs to, or ``language``."""
    if key.measurement.startswith("language_"):
        return "language"
    return "translation" if key.task in TRANSLATION_TASKS else "encoder"


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
        options: those of the halves; None where one was not given.

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
    settings = load_profile(profile, **options_given, **values)
    if halves == ["translation"] and task is not None:
        settings.translator(task, settings.model_of(task))
    return settings


def check_task(task: str | None, profile: str, halves: Sequence[Half]) -> None:
    """Raises ValueError for a task that is in none of some halves, and suggests the nearest ones."""
    known = {name for half in halves for name in HALF_OF[half].tasks(profile)}
    if task is not None and task not in known:
        raise ValueError(unknown("task", task, known))
