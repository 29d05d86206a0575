"""The replication's trained models: ``headprune train``, and their names for ``inspect`` etc."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from headprune_lib.cli.app import short
from headprune_lib.cli.models import NamedModel, register_named_models
from headprune_lib.messages import unknown
from headprune_lib.replication.cli.options import (
    FOLDERS,
    Data,
    DeviceName,
    ProfileName,
    command,
    resumable,
)
from headprune_lib.replication.lazy import encoders, profiles, translators
from headprune_lib.replication.paths import models_root, trained_root

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedTokenizerBase


@command(needs=FOLDERS)
def train(
    task: Annotated[
        str | None,
        typer.Argument(
            help="A classification task, or enfr, deen or multi30k for a translation model; the "
            "profile's task if left out."
        ),
    ] = None,
    profile: ProfileName = "default",
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="One seed; if left out all of the profile's (translation: one)."),
    ] = None,
    data: Data = None,
    device: DeviceName = None,
    retrain: Annotated[bool, typer.Option("--retrain", help="Replace stored weights.")] = False,
    publish: Annotated[
        bool,
        typer.Option("--publish", help="Copy a translation model's final weights to data/models."),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            help="Model in place of the profile's; for translation post-norm, pre-norm, …."
        ),
    ] = None,
) -> None:
    """Train the profile's model on its task, for each seed, and store the weights.

    A translation model is trained from scratch, one seed, and resumes from its last epoch after an
    interruption.
    """
    from headprune_lib.replication.measurements.base import HALVES
    from headprune_lib.replication.measurements.obtaining import check_task, load_for
    from headprune_lib.replication.store.files import check_writable

    with resumable():
        check_task(task, profile, HALVES)
        translated = task in profiles.load_profile(profile).translators
        half = "translation" if translated else "encoder"
        options = {"data": data, "device": device}
        settings = load_for([half], profile, task, options, model=model)
        _check_text(data, task or settings.task, translated=translated)
        profiles.check_here(settings)
        check_writable(trained_root(), *([models_root()] if publish else []))
        if translated:
            seed = settings.trainings(task)[0] if seed is None else seed
            named = settings.model_of(task)
            paths = [translators.train(settings, task, seed, model=named, retrain=retrain)]
            for path in translators.publish(settings, task, seed, named) if publish else paths:
                typer.echo(short(path))
            return
        if publish:
            raise ValueError(f"--publish is for translation models, and {settings.task} has none")
        for number in settings.seeds if seed is None else [seed]:
            encoders.finetuned(settings, number, retrain=retrain)
            recipe = encoders.recipe(settings, number)
            typer.echo(short(encoders.weights_path(settings.model, recipe)))


def _check_text(data: str | None, task: str, *, translated: bool) -> None:
    """Raises ValueError for text that the training would not read."""
    from headprune_lib.replication.data.own import own_text

    text = own_text(data)
    if translated and data is not None:
        raise ValueError(f"{task} has text of its own. Leave out --data")
    if text and (text.kind != "labels" or task not in (text.name, *text.others.values())):
        raise ValueError(
            f"{data} has the text of {text.name}, and {task} is trained. Leave out --data, or give "
            "text for a classifier and its name as the task"
        )


# --- the trained models under the names of their tasks ----------------------------------------------


@register_named_models
def named_models() -> dict[str, NamedModel]:
    """The models of the classification and translation tasks, such as ``reviews`` or ``enfr``.

    Nothing is trained: if weights are not stored, the error names the command that makes them.
    ``wmt14-enfr`` is the paper's own translator, fetched the first time.
    """
    from headprune_lib.replication.data import TASKS, TRANSLATION_TASKS

    loads = {
        **dict.fromkeys(TRANSLATION_TASKS, (_translator, _no_tokenizer)),
        "wmt14-enfr": (_public_translator, _no_tokenizer),
        **dict.fromkeys(TASKS, (_classifier, _tokenizer)),
    }
    return {
        task: NamedModel(partial(load, task), partial(load_tokenizer, task))
        for task, (load, load_tokenizer) in loads.items()
    }


def _public_translator(_task: str) -> nn.Module:
    from headprune_lib.replication.models.fairseq import public_translator

    return public_translator().fairseq.model


def _classifier(task: str) -> nn.Module:
    from headprune_lib.replication.models.weights import read_weights

    profile = profiles.load_profile(task=task)
    wanted = encoders.recipe(profile, profile.seed)
    weights = read_weights(encoders.weights_path(profile.model, wanted), wanted)
    if weights is None:
        raise FileNotFoundError(
            f"no weights of {task} are stored here. Run `headprune train {task}` to make them"
        )
    return encoders.with_weights(task, profile.model, profile.seed, weights, "sdpa")


def _tokenizer(task: str) -> PreTrainedTokenizerBase:
    from headprune_lib.replication.models.pretrained import load_tokenizer

    return load_tokenizer(profiles.load_profile(task=task).model)


def _translator(task: str) -> nn.Module:
    profile = profiles.load_profile()
    if task not in profile.translation:
        raise ValueError(unknown("translation task", task, profile.translation))
    model, seed = profile.translation_model, profile.trainings(task)[0]
    if not translators.committed_path(task, model, seed).is_file():
        raise FileNotFoundError(
            f"no weights of {task} are stored in {models_root()}. Run `headprune train {task} "
            "--publish` to make them"
        )
    return translators.load_translator(profile, task, model=model).model


def _no_tokenizer(task: str) -> PreTrainedTokenizerBase:
    raise ValueError(
        f"{task} has pieces of its own vocabulary, not a tokenizer of transformers. Use `headprune "
        f"inspect {task}` to see its heads, and `headprune reproduce` to score them"
    )
