"""Profiles: named sets of parameters (the YAML files beside this one), one code for all."""

from __future__ import annotations

from dataclasses import field
from importlib import resources
from typing import Annotated, Literal

import torch
import yaml
from pydantic import AfterValidator, StrictBool, StrictFloat, StrictInt
from pydantic_core import PydanticCustomError

from headprune_lib.cli.models import check_device
from headprune_lib.messages import unknown
from headprune_lib.replication.data import TASKS, whole_task
from headprune_lib.replication.data.passages import LANGUAGE_TASKS
from headprune_lib.replication.data.verses import TRANSLATION_TASKS
from headprune_lib.replication.models.pretrained import BASES, LANGUAGE_MODELS
from headprune_lib.replication.paths import absolute
from headprune_lib.replication.profiles.parameters import (
    Count,
    CountFrom0,
    CountOrAll,
    PositiveFloat,
    one_of,
    parameters,
)
from headprune_lib.replication.profiles.recipes import (
    POST_NORM,
    Candidate,
    FairseqRecipe,
    Finetuning,
    Published,
    Recipe,
    Recovery,
    Shape,
    TranslatorRecipe,
    Tuning,
)

__all__ = [
    "POST_NORM",
    "PROFILES",
    "Candidate",
    "Checkpoints",
    "FairseqRecipe",
    "Finetuning",
    "Language",
    "Profile",
    "Published",
    "Recipe",
    "Recovery",
    "Shape",
    "Speed",
    "TranslatorRecipe",
    "Tuning",
    "check_here",
    "load_profile",
]

PROFILES = ("smoke", "default", "base", "paper")


def _known_to_torch(device: str) -> str:
    try:
        torch.device(device)
    except RuntimeError:
        told = unknown("device", device, ("cpu", "cuda", "mps"))
        raise PydanticCustomError("name", "{told}", {"told": told}) from None
    return device


_Task = Annotated[str, one_of("task", TASKS)]
_Translation = Annotated[str, one_of("translation task", TRANSLATION_TASKS)]


@parameters
class Speed:
    """What Table 4 times."""

    batch_sizes: list[Count]
    n_sentences: Count
    repetitions: Count
    share: StrictFloat
    shape: str
    shape_length: Count
    shape_sentences: Count


@parameters
class Checkpoints:
    """At which points of a model's training Figure 5 is measured, and in which orders heads go.

    ``shares`` are of the best validation BLEU: the stored weights nearest to each are measured;
    those after each of ``epochs`` are too.
    ``within`` are weights from within the first epochs, and those from before the first update,
    which are then measured too; ``every`` further epochs, and the last. ``unnormalised`` and
    ``random_orders`` are orders beside the paper's, at the one share removed that is compared. The
    first ``n_verses`` test verses are translated, those of every sweep if null.
    """

    shares: list[StrictFloat]
    within: StrictBool
    every: Count | None
    unnormalised: StrictBool
    random_orders: Count | None
    n_verses: Count | None
    epochs: list[Count] = field(default_factory=list)


@parameters
class Language:
    """What language models are measured on.

    Passages are cut after ``length`` tokens, and taken until they hold ``test_tokens`` (what is
    reported; ``head_tokens`` of every single head) or ``scoring_tokens`` (what heads are scored
    on). ``shares`` of the heads go along a
    curve; of ``recovered`` ones the model is trained again as ``tuning`` says.
    """

    test_tokens: Count
    head_tokens: Count
    scoring_tokens: Count
    length: Count
    batch_size: Count
    shares: list[PositiveFloat]
    random_orders: Count
    recovered: list[StrictFloat]
    tuning: Tuning


@parameters
class Profile:
    """Everything a measurement depends on but the device. Fields: see ``default.yml``."""

    name: str
    main_task: _Task
    stand_ins: dict[str, _Task]
    folder: str
    task: _Task
    model: Annotated[str, one_of("model", BASES)]
    seeds: list[StrictInt]
    further_seeds: list[StrictInt]
    domains: list[Annotated[str, one_of("domain", TASKS)]]
    n_used: CountFrom0
    n_examples: CountOrAll
    n_domain: CountOrAll
    n_scoring: Count
    n_selection: Count
    batch_size: Count
    steps: Count
    random_orders: Count
    orders: Literal["every", "leak-free", "importance"]
    compared: list[str]
    compared_trainings: Count
    recovery: Recovery
    finetuning: Finetuning
    frozen: Literal["embeddings", "nothing"]
    recipes: list[Candidate]
    translation_task: _Translation
    translation_far: _Translation
    training_task: _Translation
    translation_model: str
    translation_seed: StrictInt | None
    translation_seeds: dict[_Translation, dict[str, list[StrictInt]]]
    n_verses: CountOrAll
    n_headline: CountOrAll
    beams: Count
    translation_orders: Count
    translation: dict[_Translation, dict[str, Recipe]]
    fairseq: dict[_Translation, dict[str, FairseqRecipe]]
    published: dict[_Translation, dict[str, Published]]
    task_models: dict[_Translation, str]
    checkpoints: dict[str, Checkpoints]
    speed: Speed
    language_model: Annotated[str, one_of("language model", LANGUAGE_MODELS)]
    language_task: Annotated[str, one_of("text", LANGUAGE_TASKS)]
    language: Language
    halves: list[Literal["encoder", "translation"]]
    device: Annotated[str, AfterValidator(_known_to_torch)] = "cpu"
    data: str | None = None
    given: dict = field(default_factory=dict, compare=False, repr=False)
    """The values that were given in place of the profile's."""

    @property
    def device_here(self) -> str:
        """``device``, or the CPU in a process that finds no GPU.

        Workers of a cluster, and the process that asks them, each compute on what they have.
        """
        return "cpu" if self.lacks_gpu else self.device

    @property
    def lacks_gpu(self) -> bool:
        """Whether ``device`` is a GPU, and this process finds none."""
        return torch.device(self.device).type == "cuda" and not torch.cuda.is_available()

    @property
    def seed(self) -> int:
        """The seed whose fine-tuning the single-model artifacts use."""
        return self.seeds[0]

    @property
    def translators(self) -> dict[str, dict[str, TranslatorRecipe]]:
        """Task -> model -> how it is trained, by us or by fairseq, or whose archive it is in."""
        found: dict[str, dict[str, TranslatorRecipe]] = {}
        for tasks in (self.translation, self.fairseq, self.published):
            for task, models in tasks.items():
                found[task] = {**found.get(task, {}), **models}
        return found

    def translator(self, task: str, model: str = POST_NORM) -> TranslatorRecipe:
        """Where a translation model comes from.

        Raises:
            ValueError: an unknown task, or a model that the task does not have.
        """
        known = self.translators
        if task not in known:
            raise ValueError(unknown("translation task", task, known))
        if model not in known[task]:
            raise ValueError(unknown(f"model of {task}", model, known[task]))
        return known[task][model]

    def model_of(self, task: str) -> str:
        """Which model of a translation task is measured: the one given, or the task's own."""
        own = self.task_models.get(task, self.translation_model)
        return self.given.get("translation_model", own)

    def trainings(self, task: str, model: str | None = None) -> list[int]:
        """Seeds of a translation model's trainings; the first stands where one is enough.

        ``translation_seed`` alone where it is given.

        Raises:
            ValueError: an unknown task, or a model that the task does not have.
        """
        model = self.model_of(task) if model is None else model
        self.translator(task, model)
        if self.translation_seed is not None:
            return [self.translation_seed]
        return self.translation_seeds[task][model]

    def check_training(self, task: str, seed: int) -> None:
        """Raises ValueError for a seed that is none of ``trainings``: hours, for a slip of the pen."""
        if seed not in (known := self.trainings(task)):
            raise ValueError(
                f"training {seed} is none of the profile's for {task}, "
                f"{self.model_of(task)}: {', '.join(map(str, known))}; to measure one of your "
                f"own, give --seed {seed}, in a notebook translation_seed"
            )

    def on(self, task: str) -> Profile:
        """The same profile, with the same values of one's own, on another task."""
        return load_profile(self.name, **{**self.given, "task": task})


def load_profile(name: str = "default", *, seed: int | None = None, **overrides) -> Profile:
    """A profile by name, with values of your own in place of its values.

    Args:
        name: ``"smoke"``, ``"default"``, ``"base"`` or ``"paper"``.
        seed: this fine-tuning first, in place of the profile's first one.
        overrides: fields of :class:`Profile`; ``None`` leaves the profile's value.

    Raises:
        ValueError: an unknown profile, task, model or field (the nearest names are suggested), or
            a value of another type than the field's or out of its range.
    """
    if name not in PROFILES:
        raise ValueError(unknown("profile", name, PROFILES))
    values = _read(name)
    values["main_task"] = values["task"]
    elsewhere, task = values.pop("tasks"), overrides.get("task")
    if task not in (None, values["task"]):
        for section in dict.fromkeys((whole_task(task), task)):
            values = merged(values, elsewhere.get(section, {}))
    # None leaves the profile's value; of a name that it does not have, it is refused with the rest
    given = {
        each: value
        for each, value in overrides.items()
        if value is not None or each not in Profile.__dataclass_fields__
    }
    values = merged(values, given)
    values["given"] = {**given, **({} if seed is None else {"seed": seed})}
    if seed is not None:
        values["seeds"] = [seed, *(other for other in values["seeds"] if other != seed)]
    if values.get("data") not in (None, "hub"):  # notebooks run in a folder of their own
        values["data"] = str(absolute(values["data"]))
    return Profile(name=name, **values)


def check_here(profile: Profile) -> None:
    """Raises ValueError where this process does not have the device that a profile is to run on."""
    if profile.lacks_gpu:
        raise ValueError(
            f"profile {profile.name} is to run on {profile.device}, and torch finds no GPU here; "
            "install torch's CUDA build, or give the device cpu"
        )
    check_device(profile.device)


def _read(name: str) -> dict:
    """A profile's file over the one that it extends."""
    values = yaml.safe_load(resources.files(__name__).joinpath(f"{name}.yml").read_text("utf-8"))
    return merged(_read(values.pop("extends")), values) if "extends" in values else values


def merged(values: dict, over: dict) -> dict:
    """``values`` with those of ``over`` in their place, section by section.

    >>> merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 5}})
    {'a': {'b': 5, 'c': 2}, 'd': 3}
    """
    return values | {
        name: merged(values[name], value)
        if isinstance(value, dict) and isinstance(values.get(name), dict)
        else value
        for name, value in over.items()
    }
