"""Profiles: named sets of parameters (the YAML files in this folder), read by the same code."""

from __future__ import annotations

import copy
import dataclasses
import functools
import typing
from collections.abc import Callable, Collection
from dataclasses import field
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import yaml
from annotated_types import Ge, Gt, Le  # a dependency of pydantic
from pydantic import AfterValidator, AllowInfNan, ConfigDict, StrictBool, StrictFloat, StrictInt
from pydantic_core import ErrorDetails, PydanticCustomError

from headprune_lib.cli.models import check_device
from headprune_lib.messages import unknown
from headprune_lib.replication.data import (
    LANGUAGE_TASKS,
    OWN_TEXTS,
    TASKS,
    TRANSLATION_TASKS,
    own_pairs,
    own_text,
    whole_task,
)
from headprune_lib.replication.lazy import torch, transformers
from headprune_lib.replication.models.pretrained import (
    BASES,
    LANGUAGE_MODELS,
    check_model_folder,
    own_model,
    refuse_missing,
)
from headprune_lib.replication.models.weights import BFLOAT16
from headprune_lib.replication.paths import absolute

PROFILES = ("smoke", "default", "base", "paper")
Count = Annotated[StrictInt, Ge(1)]
CountFrom0 = Annotated[StrictInt, Ge(0)]
CountOrAll = Count | None
SeveralOrAll = Annotated[StrictInt, Ge(2)] | None  # a single text has no interval
PositiveFloat = Annotated[StrictFloat, AllowInfNan(False), Gt(0)]
Share = Annotated[StrictFloat, AllowInfNan(False), Ge(0), Le(1)]
PositiveShare = Annotated[StrictFloat, AllowInfNan(False), Gt(0), Le(1)]


def _refusing(kind: str, refusal: Callable[[Any], str]) -> AfterValidator:
    """Validator that refuses a value for which a function returns a message, of an error's kind."""

    def check(value: Any) -> Any:
        if told := refusal(value):
            raise PydanticCustomError(kind, "{told}", {"told": told})
        return value

    return AfterValidator(check)


def one_of(what: str, names: Collection[str]) -> AfterValidator:
    """Validator that refuses a name not among ``names`` when it runs, and suggests the nearest."""
    return _refusing("name", lambda name: "" if name in names else unknown(what, name, names))


SOME = _refusing("list", lambda given: "" if given else "Give one at least")
"""Validator that refuses an empty list."""
ONCE = _refusing(
    "list", lambda given: "Give each of them once" if len({*given}) < len(given) else ""
)
"""Validator that refuses a list with something in it twice."""


@typing.dataclass_transform(frozen_default=True)
def parameters(cls: type) -> type:
    """Make a frozen dataclass whose values pydantic checks, also those within sections and lists.

    Raises:
        ValueError: from its constructor, if a value is wrong (all wrong values are named).
    """
    dataclass = pydantic.dataclasses.dataclass(cls, frozen=True, config=ConfigDict(extra="forbid"))
    checked = dataclass.__init__

    @functools.wraps(checked)
    def __init__(self, *args, **kwargs) -> None:
        try:
            checked(self, *args, **kwargs)
        except pydantic.ValidationError as error:
            told: dict[tuple[str, str], str] = {}  # once where an option sets two fields
            for wrong in error.errors():
                told.setdefault((repr(wrong["input"]), wrong["msg"]), _told(dataclass, wrong))
            raise ValueError(". ".join(told.values())) from None

    dataclass.__init__ = __init__
    return dataclass


def _told(cls: type, error: ErrorDetails) -> str:
    """Describe one wrong value: where it is, what was given and what to give."""
    *sections, name = error["loc"]
    where = ".".join(map(str, error["loc"]))
    if error["type"] == "unexpected_keyword_argument":
        known = [field.name for field in dataclasses.fields(_section(cls, sections))]
        of = f" of {'.'.join(map(str, sections))}" if sections else ""
        return unknown(f"parameter{of}", str(name), known)
    if error["type"] == "missing":
        return f"{where} is missing"
    if error["type"] == "name":
        return error["msg"]
    message = error["msg"]
    for theirs, ours in _WORDS.items():
        message = message.replace(theirs, ours)
    return f"{where} is {error['input']!r}. {message}"


_WORDS = {
    "Input should be greater than or equal to": "Give at least",
    "Input should be greater than": "Give a number above",
    "Input should be less than or equal to": "Give at most",
    "Input should be": "Give",
}
"""pydantic's words for an error -> what to do about it."""


def _section(cls: type, path: list) -> type:
    """The dataclass of a section, through dicts of sections by name."""
    for name in path:
        cls = (
            typing.get_type_hints(cls)[name]
            if dataclasses.is_dataclass(cls)
            else typing.get_args(cls)[-1]
        )
    return cls


POST_NORM = "post-norm"
"""The model of a task if none is named."""


@parameters
class Finetuning:
    """Recipe of a fine-tuning; part of every result's signature."""

    epochs: Count
    batch_size: Count
    learning_rate: PositiveFloat
    warmup: Share
    weight_decay: Share
    max_length: Count
    n_train: CountOrAll


@parameters
class Candidate:
    """Settings of a compared fine-tuning recipe; the rest are the profile's."""

    epochs: Count
    learning_rate: PositiveFloat
    batch_size: Count


@parameters
class Adapters:
    """LoRA adapters on frozen weights."""

    rank: Count
    learning_rate: PositiveFloat  # the peak


@parameters
class Recovery:
    """How an encoder is retrained after heads were removed from it; the rest is Finetuning's.

    ``shares`` of the heads are removed in each of ``orders`` and in ``random_orders`` random ones.
    """

    ways: Annotated[list[Literal["all weights", "LoRA"]], SOME, ONCE]
    orders: Annotated[list[str], SOME, ONCE]
    shares: Annotated[list[PositiveShare], SOME, ONCE]
    random_orders: Count
    epochs: Count
    lora: Adapters


@parameters
class Shape:
    """Size of a Transformer with one vocabulary for both languages.

    ``norm`` is where layers are normalised: after each block with its residual connection, as in
    Vaswani et al. 2017 and the paper's WMT model, or before it, as in its IWSLT model.
    """

    layers: Count
    heads: Count
    width: Count
    feed_forward: Count
    vocabulary: Count
    dropout: Share
    norm: Literal["after", "before"] = "after"


@parameters
class Recipe:
    """How a translation model is trained; part of its file and of every result's signature."""

    shape: Shape
    batch_tokens: Count  # target tokens of an update, at most
    learning_rate: PositiveFloat  # the peak
    warmup: CountFrom0  # updates up to the peak; then inverse square root
    label_smoothing: Share
    min_epochs: Count  # before early stopping may end it
    max_epochs: Count
    patience: Count  # epochs without a better validation BLEU
    averaged_epochs: Count  # the last ones, whose weights are averaged into the final ones
    precision: Literal["bfloat16 autocast", "float32"] = BFLOAT16


@parameters
class FairseqRecipe:
    """How fairseq itself trains a translation model: its own recipe for IWSLT, with these changes.

    ``options`` are further arguments of ``fairseq-train``; later ones win.
    """

    epochs: Count  # each leaves a checkpoint
    pieces: Count  # of the joint byte pair encoding
    options: list[str]


@parameters
class Published:
    """A translation model already trained: the name of its archive, or a Marian model's folder."""

    archive: str

    @property
    def folder(self) -> Path | None:
        """The folder of a user's model; None for a registered archive."""
        return folder if (folder := Path(self.archive)).is_absolute() else None


TranslatorRecipe = Recipe | FairseqRecipe | Published
"""Where a translation model comes from."""


@parameters
class Tuning:
    """How a pruned language model is retrained: LoRA on every projection of every layer."""

    updates: Count
    batch_size: Count  # passages
    learning_rate: PositiveFloat  # the peak; linear warm-up over a tenth of the updates, and decay
    rank: Count


_DEVICES = ("cpu", "cuda", "mps")


def _unknown_to_torch(device: str) -> str:
    try:
        if device not in _DEVICES:
            torch.device(device)
    except RuntimeError:
        return unknown("device", device, _DEVICES)
    return ""


_Task = Annotated[str, one_of("task", TASKS)]
_Translation = Annotated[str, one_of("translation task", TRANSLATION_TASKS)]


_SHAPES = ("bert-base", *(name for name, base in BASES.items() if base.build is not None))


@parameters
class Speed:
    """Settings of Table 4's timings."""

    batch_sizes: Annotated[list[Count], SOME, ONCE]
    n_sentences: Count
    repetitions: Count
    share: Share
    shape: Annotated[str, one_of("shape", _SHAPES)]
    shape_length: Count
    shape_sentences: Count


@parameters
class Checkpoints:
    """The checkpoints of a training at which Figure 5 is measured, and the orders of removal.

    The stored weights nearest to each of ``shares`` of the best validation BLEU are measured, and
    those after each of ``epochs``. With ``every``, so are epochs divisible by it, and the last one.
    ``within`` adds weights from within the first epochs to choose from, and the untrained ones,
    which are then measured too. ``unnormalised`` and ``random_orders`` are orders besides the
    paper's, at the one share removed that is compared. The first ``n_verses`` test verses are
    translated, those of every sweep if null.
    """

    shares: list[Share]
    within: StrictBool
    every: Count | None
    unnormalised: StrictBool
    random_orders: Count | None
    n_verses: Count | None
    epochs: list[Count] = field(default_factory=list)


@parameters
class Language:
    """Settings of the measurements of language models.

    Passages are cut after ``length`` tokens, and taken until they contain ``test_tokens`` (for
    reported numbers; ``head_tokens`` for every single head) or ``scoring_tokens`` (for scoring
    heads). A curve removes ``shares`` of the heads; after removal of ``recovered`` shares the model
    is retrained as ``tuning`` says.
    """

    test_tokens: Count
    head_tokens: Count
    scoring_tokens: Count
    length: Count
    batch_size: Count
    shares: Annotated[list[PositiveShare], SOME, ONCE]
    random_orders: Count
    recovered: Annotated[list[Share], SOME, ONCE]
    tuning: Tuning


@parameters
class Profile:
    """Everything that a measurement depends on, and the device. Fields: see ``default.yml``."""

    name: str
    main_task: _Task
    stand_ins: dict[str, _Task]
    folder: str
    task: _Task
    model: Annotated[str, one_of("model", BASES)]
    seeds: Annotated[list[CountFrom0], SOME, ONCE]
    further_seeds: Annotated[list[CountFrom0], ONCE]
    domains: Annotated[list[Annotated[str, one_of("domain", TASKS)]], ONCE]
    n_used: CountFrom0
    n_examples: SeveralOrAll
    n_domain: CountOrAll
    n_scoring: Count
    n_selection: Count
    batch_size: Count
    steps: Count
    random_orders: Count
    orders: Literal["every", "leak-free", "importance"]
    compared: Annotated[list[str], SOME, ONCE]
    compared_trainings: Count
    recovery: Recovery
    finetuning: Finetuning
    frozen: Literal["embeddings", "nothing"]
    recipes: list[Candidate]
    translation_task: _Translation
    translation_far: _Translation
    training_task: _Translation
    translation_model: str
    translation_seed: CountFrom0 | None
    translation_seeds: dict[_Translation, dict[str, Annotated[list[CountFrom0], SOME, ONCE]]]
    n_verses: SeveralOrAll
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
    device: Annotated[str, _refusing("name", _unknown_to_torch)] = "cpu"
    data: str | None = None
    given: dict = field(default_factory=dict, compare=False, repr=False)
    """The values that were given in place of the profile's."""

    @property
    def device_here(self) -> str:
        """``device``, or the CPU if that is a CUDA GPU and this process finds none.

        Workers of a cluster, and their client, each compute on what they have.
        """
        return "cpu" if self.lacks_gpu else self.device

    @property
    def lacks_gpu(self) -> bool:
        """Whether ``device`` is a CUDA GPU, and this process finds none."""
        return self.device.startswith("cuda") and not torch.cuda.is_available()

    @property
    def seed(self) -> int:
        """The seed whose fine-tuning the single-model artifacts use."""
        return self.seeds[0]

    @property
    def translators(self) -> dict[str, dict[str, TranslatorRecipe]]:
        """Task -> model -> its origin: trained by us, trained by fairseq, or published."""
        return functools.reduce(merged, (self.translation, self.fairseq, self.published))

    def translator(self, task: str, model: str | None = None) -> TranslatorRecipe:
        """Where a translation model comes from; the one that is measured if none is named.

        Raises:
            ValueError: an unknown task, or a model that the task does not have.
        """
        known, model = self.translators, model or self.model_of(task)
        if task not in known and task in OWN_TEXTS:
            raise ValueError(f"{task} is text of your own. Give a translator by --model FOLDER")
        if task not in known:
            raise ValueError(unknown("translation task", task, known))
        if model not in known[task]:
            raise ValueError(unknown(f"model of {task}", model, known[task]))
        return known[task][model]

    def model_of(self, task: str) -> str:
        """The model of a translation task to measure: the one given, or the task's own."""
        if "translation_model" in self.given:
            return self.translation_model
        return self.task_models.get(task, self.translation_model)

    def checkpoints_of(self, task: str) -> Checkpoints:
        """The checkpoints at which a translation task's model is measured.

        Raises:
            ValueError: no checkpoints are given for the model.
        """
        if (model := self.model_of(task)) not in self.checkpoints:
            raise ValueError(unknown("model with checkpoints", model, self.checkpoints))
        return self.checkpoints[model]

    def trainings(self, task: str, model: str | None = None) -> list[int]:
        """Seeds of a translation model's trainings; the first is used if one is enough.

        Only ``translation_seed`` if it is given.

        Raises:
            ValueError: an unknown task, or a model that the task does not have.
        """
        model = model or self.model_of(task)
        self.translator(task, model)
        if self.translation_seed is not None:
            return [self.translation_seed]
        return self.translation_seeds[task][model]

    def check_training(self, task: str, seed: int) -> None:
        """Raise ValueError for a seed not in ``trainings``: a typing error would cost hours."""
        if seed not in (known := self.trainings(task)):
            raise ValueError(
                f"training {seed} is not one of the profile's for {task}, "
                f"{self.model_of(task)}: {', '.join(map(str, known))}. For a training of your "
                f"own, give --seed {seed} (in a notebook translation_seed)"
            )

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Enter the user's models and tasks first, for another process."""
        enter_own(dict(state["given"]))
        self.__dict__.update(state)

    def on(self, task: str) -> Profile:
        """The same profile, with the same values given, on another task."""
        return load_profile(self.name, **{**self.given, "task": task})


def load_profile(name: str = "default", *, seed: int | None = None, **overrides) -> Profile:
    """Load a profile by name, with values of your own in place of its values.

    Args:
        name: ``"smoke"``, ``"default"``, ``"base"`` or ``"paper"``.
        seed: of the fine-tuning that comes first, in place of the profile's first one.
        overrides: fields of :class:`Profile`; ``None`` leaves the profile's value.

    Raises:
        ValueError: an unknown profile, task, model or field (the nearest names are suggested), or
            a value of another type than the field's or out of its range.
    """
    if name not in PROFILES:
        raise ValueError(unknown("profile", name, PROFILES))
    values = copy.deepcopy(_read(name))
    values["main_task"] = values["task"]
    # None leaves the profile's value; under a name that it does not have, it is refused below
    given = {
        each: value
        for each, value in overrides.items()
        if value is not None or each not in Profile.__dataclass_fields__
    }
    entered = enter_own(given)
    elsewhere, task = values.pop("tasks"), given.get("task")
    text = own_text(given.get("data"))
    if task not in (None, values["task"]):
        mine = text is not None and text.name == task
        for section in ("own",) if mine else dict.fromkeys((whole_task(task), task)):
            values = merged(values, elsewhere.get(section, {}))
    if text is not None and all(given.get(field) == name for field, name in text.fields.items()):
        values = merged(values, text.over(values))
    named = given.get("translation_model")
    names = {name for models in values["translation_seeds"].values() for name in models}
    if isinstance(named, str) and named not in names:
        refuse_missing(named)
        if absolute(named).is_dir():
            entered["translation_model"] = _enter_translator(values, given)
    values = merged(values, given | entered)
    values["given"] = {**given, **({} if seed is None else {"seed": seed})}
    if seed is not None:
        if type(seed) is not int or seed < 0:
            raise ValueError(f"seed is {seed!r}. Give a whole number, 0 or more")
        values["seeds"] = [seed, *(other for other in values["seeds"] if other != seed)]
    if values["model"] in BASES and (base := BASES[values["model"]]).given:
        values["finetuning"]["max_length"] = base.longest(values["finetuning"]["max_length"])
        if values["task"] in TASKS:
            base.places(TASKS[values["task"]].labels)  # refuses other classes
        if base.classes and seed is not None:
            raise ValueError(f"{base.name} is fine-tuned already. Leave out the seed")
        if base.classes:
            values |= {"seeds": [1], "further_seeds": [], "compared_trainings": 1}
    if values.get("data") not in (None, "hub"):  # notebooks run in a folder of their own
        values["data"] = str(absolute(values["data"]))
        if not Path(values["data"]).is_dir():
            raise ValueError(f"no folder {values['data']} to read text from. Give another, or hub")
    return Profile(name=name, **values)


def enter_own(given: dict[str, Any]) -> dict[str, str]:
    """Enter the user's models and text; ``given`` then has the tasks' names, and absolute paths.

    Returns:
        The models' names in place of their paths, by field.
    """
    entered = {}
    for kind, known in (("model", BASES), ("language_model", LANGUAGE_MODELS)):
        if isinstance(path := given.get(kind), str):
            entered[kind] = own_model(path, known)
            given[kind] = known[entered[kind]].given or path
    if isinstance(data := given.get("data"), str) and data != "hub":
        given["data"] = str(absolute(data))
    if (text := own_text(given.get("data"))) is not None:
        for task_field, name in text.fields.items():
            given.setdefault(task_field, name)
    return entered


def _enter_translator(values: dict[str, Any], given: dict[str, Any]) -> str:
    """Add a user's Marian model to each translation task of a profile, and return its name."""
    folder = absolute(given["translation_model"])
    check_model_folder(folder)
    if transformers.AutoConfig.from_pretrained(folder).model_type != "marian":
        raise ValueError(f"{folder} is not a Marian model, the only kind that can translate here")
    given["translation_model"] = str(folder)
    for task in (*values["translation_seeds"], *own_pairs()):
        values["translation_seeds"].setdefault(task, {})[folder.name] = [1]
        models = values["published"].setdefault(task, {})
        models[folder.name] = {"archive": str(folder)}
    return folder.name


def check_here(profile: Profile) -> None:
    """Raise ValueError if this process does not have the device that a profile is to run on."""
    if profile.lacks_gpu:
        raise ValueError(
            f"profile {profile.name} runs on {profile.device}, and torch finds no GPU here. "
            "Install torch's CUDA build, or give the device cpu"
        )
    check_device(profile.device)


@functools.cache
def _read(name: str) -> dict:
    """The values of a profile's file, over those of the one that it extends."""
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
