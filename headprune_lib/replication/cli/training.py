"""Commands that train models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from headprune_lib.replication.profiles import Profile


@app.command(cls=WITH_FOLDERS, rich_help_panel=PANEL)
def train(
    task: Annotated[
        str | None,
        typer.Argument(
            help="A task; enfr, deen or multi30k: a model that translates; the profile's task if left "
            "out."
        ),
    ] = None,
    profile: ProfileName = "default",
    seed: Annotated[
        int | None, typer.Option(min=0, help="One seed; all of the profile if left out.")
    ] = (None),
    data: Data = None,
    device: DeviceName = None,
    retrain: Annotated[bool, typer.Option("--retrain", help="Even if weights are stored.")] = False,
    publish: Annotated[
        bool,
        typer.Option("--publish", help="Copy a translation model's final weights to data/models."),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            help="In place of the profile's model; of a translation task post-norm or pre-norm."
        ),
    ] = None,
) -> None:
    """Train the profile's model on its task, for each seed, and store the weights.

    A translation model is trained from scratch, one seed, and resumes from its last epoch after an
    interruption.
    """
    from headprune_lib.replication.measurements.halves import check_task, load_for
    from headprune_lib.replication.measurements.measurement import HALVES
    from headprune_lib.replication.models.encoders import finetuned, recipe, weights_path
    from headprune_lib.replication.profiles import check_here, load_profile

    with user_errors(), resumable():
        check_task(task, profile, HALVES)
        translated = task in load_profile(profile).translators
        half = "translation" if translated else "encoder"
        options = {"data": data, "device": device}
        settings = load_for([half], profile, task, options, model=model)
        check_here(settings)
        if translated:
            _train_translator(settings, task, seed, retrain, publish)
            return
        if publish:
            raise ValueError(f"--publish is for translation models; {settings.task} has none")
        for number in settings.seeds if seed is None else [seed]:
            finetuned(settings, number, retrain=retrain)
            typer.echo(short(weights_path(settings.model, recipe(settings, number))))


def _train_translator(
    settings: Profile, task: str, seed: int | None, retrain: bool, publish: bool
) -> None:
    from headprune_lib.replication.models import translators

    seed, model = settings.trainings(task)[0] if seed is None else seed, settings.model_of(task)
    folder = translators.train(settings, task, seed, model=model, retrain=retrain)
    for path in translators.publish(settings, task, seed, model) if publish else [folder]:
        typer.echo(short(path))


@app.command(
    "fairseq-iwslt",
    hidden=True,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def fairseq_iwslt(
    context: typer.Context,
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="A folder that fairseq-preprocess wrote.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the checkpoints.")],
) -> None:
    """Train the paper's IWSLT model with fairseq itself, and convert every epoch.

    Goes on from the last checkpoint; further arguments are fairseq-train's. The recipe:
    transformer_iwslt_de_en with 8 heads and the norm before each block, Adam, inverse square root
    with 4,000 warm-up updates to 5e-4, dropout 0.3, label smoothing 0.1, 4,000 tokens a batch.

    Example: headprune fairseq-iwslt data-bin/iwslt14 runs/iwslt --max-epoch 40 --fp16
    """
    from headprune_lib.replication.models.fairseq import train_iwslt

    with user_errors():
        try:
            folders = train_iwslt(data, out, context.args)
        except ChildProcessError as error:
            typer.echo(f"headprune: {error}", err=True)
            raise typer.Exit(1) from None
    for folder in folders:
        typer.echo(short(folder))
