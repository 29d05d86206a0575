"""Commands that train models."""

from __future__ import annotations

from typing import Annotated

import typer

from headprune_lib.cli.app import app, short, user_errors
from headprune_lib.replication.cli.options import (
    PANEL,
    WITH_FOLDERS,
    Data,
    DeviceName,
    ProfileName,
    resumable,
)
from headprune_lib.replication.lazy import encoders, profiles, translators
from headprune_lib.replication.paths import models_root, trained_root


@app.command(cls=WITH_FOLDERS, rich_help_panel=PANEL)
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

    with user_errors(), resumable():
        check_task(task, profile, HALVES)
        translated = task in profiles.load_profile(profile).translators
        half = "translation" if translated else "encoder"
        options = {"data": data, "device": device}
        settings = load_for([half], profile, task, options, model=model)
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
