"""The commands that replicate the paper."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand

from headprune_lib.cli.app import Device, app, refuse, refusing, short
from headprune_lib.replication import named_models

__all__ = ["app", "named_models"]  # importing this file adds the commands and the names of models

PANEL = "The replication"
ProfileName = Annotated[str, typer.Option(help="Which set of parameters: smoke, default or base.")]
Data = Annotated[
    str | None,
    typer.Option(help="Folder with the public benchmarks, or hub; $HEADPRUNE_DATA if left out."),
]


class _NameValuePairs(TyperCommand):
    """Reads ``-p NAME VALUE`` as papermill does; typer knows no repeatable option of two words."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
        words, joined = iter(args), []
        for word in words:
            joined.append(word)
            if word in ("-p", "--parameter"):
                pair = [*itertools.islice(words, 2)]
                if len(pair) < 2:
                    refuse(f"{word} takes a name and a value, not {' '.join(pair) or 'nothing'}")
                joined.append("=".join(pair))
        return super().parse_args(ctx, joined)


@app.command(cls=_NameValuePairs, rich_help_panel=PANEL)
def run(
    notebooks: Annotated[
        list[str], typer.Argument(help="Paths, or short names such as 01_one_head.")
    ],
    parameter: Annotated[
        list[str] | None,
        typer.Option("-p", "--parameter", metavar="NAME VALUE", help="Set a parameter."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Where the executed notebook goes. By default in place; with parameters that "
            "change the result, <name>-run.ipynb in the current folder."
        ),
    ] = None,
) -> None:
    """Execute notebooks with papermill, from any working directory."""
    from papermill import PapermillExecutionError

    from headprune_lib.replication.pages.notebooks import (
        HOW_NOT_WHAT,
        find_notebook,
        parse_value,
        run_notebook,
    )

    # The kernels inherit it: tqdm would advise each of them to install widgets.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:IProgress not found")
    if output is not None and len(notebooks) > 1:
        refuse("--output takes one notebook at a time")
    pairs = (pair.partition("=") for pair in parameter or [])
    parameters = {name: parse_value(value) for name, _, value in pairs}
    for name in notebooks:
        started = time.monotonic()
        try:
            with refusing():
                source = find_notebook(name)
                target = output
                if target is None and not parameters.keys() <= HOW_NOT_WHAT:
                    target = Path(f"{source.stem}-run.ipynb")
                typer.echo(f"{source.stem} …", err=True)
                written = run_notebook(source, parameters, target)
        except PapermillExecutionError as error:
            typer.echo(f"{error}\n{source.name} failed and was not written.", err=True)
            raise typer.Exit(1) from None
        typer.echo(f"{short(written)}  {time.monotonic() - started:.0f} s")


@app.command(rich_help_panel=PANEL)
def reproduce(
    artifact: Annotated[
        str,
        typer.Argument(
            help="A table or figure of the paper, such as figure1b, or a measurement, such as one_head."
        ),
    ],
    profile: ProfileName = "default",
    task: Annotated[str | None, typer.Option(help="In place of the profile's task.")] = None,
    model: Annotated[str | None, typer.Option(help="In place of the profile's model.")] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Of a pruning curve, only this order of removal or criterion (`headprune criteria`); "
            "may be given several times."
        ),
    ] = None,
    n_examples: Annotated[int | None, typer.Option(help="Only this many test sentences.")] = None,
    n_verses: Annotated[int | None, typer.Option(help="Only this many test verses.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the fine-tuning or training.")] = None,
    data: Data = None,
    device: Device = "cpu",
    stored: Annotated[bool, typer.Option(help="Accept a stored result that fits.")] = False,
) -> None:
    """Measure a table or figure again, with the weights at hand, and store it."""
    from headprune_lib.replication import measurements
    from headprune_lib.replication.encoder.pretrained import BASES
    from headprune_lib.replication.profiles import load_profile

    with refusing():
        translated = task in load_profile(profile).translation
        settings = load_profile(
            profile,
            task=None if translated else task,
            **(
                {}
                if model is None
                else {"model": model}
                if model in BASES
                else {"translation_model": model}
            ),
            n_examples=n_examples,
            n_verses=n_verses,
            n_headline=n_verses,
            seed=seed,
            translation_seed=seed,
            data=data,
            device=device,
        )
        result = measurements.get(
            artifact, settings, task=task if translated else None, parts=by, fresh=not stored
        )
    seconds = sum(part.provenance["seconds"] for part in result.parts.values())
    typer.echo(f"{artifact}: {result.n_examples} examples, measured in {seconds:.0f} s")


@app.command(rich_help_panel=PANEL)
def train(
    task: Annotated[
        str | None,
        typer.Argument(
            help="A task; enfr or deen: that translation model; the profile's task if left out."
        ),
    ] = None,
    profile: ProfileName = "default",
    seed: Annotated[int | None, typer.Option(help="One seed; all of the profile if left out.")] = (
        None
    ),
    data: Data = None,
    device: Device = "cpu",
    retrain: Annotated[bool, typer.Option("--retrain", help="Even if weights are stored.")] = False,
    publish: Annotated[
        bool,
        typer.Option("--publish", help="Copy a translation model's final weights to data/models."),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            help="Of a translation task, which of the profile's models: post-norm or pre-norm."
        ),
    ] = None,
) -> None:
    """Train the profile's model on its task, for each seed, and store the weights.

    A translation model is trained from nothing, one seed, and goes on from its last epoch after a
    kill.
    """
    from headprune_lib.replication.encoder.weights import finetuned
    from headprune_lib.replication.profiles import load_profile

    with refusing():
        settings = load_profile(profile, data=data, device=device)
        if task in settings.translation:
            _train_translator(settings, task, seed, retrain, publish, model)
            return
        settings = settings if task is None else settings.on(task)
        for number in settings.seeds if seed is None else [seed]:
            finetuned(settings, number, retrain=retrain)


@app.command(rich_help_panel=PANEL)
def tune(
    task: Annotated[str | None, typer.Argument(help="A task; the profile's if left out.")] = None,
    profile: ProfileName = "default",
    epochs: Annotated[list[int] | None, typer.Option(help="May be given several times.")] = None,
    learning_rate: Annotated[
        list[float] | None, typer.Option(help="May be given several times.")
    ] = None,
    batch_size: Annotated[
        list[int] | None, typer.Option(help="May be given several times.")
    ] = None,
    n_held_out: Annotated[
        int | None,
        typer.Option(help="Training examples that are scored; a fifth, at most 1500, if left out."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the fine-tuning.")] = None,
    data: Data = None,
    device: Device = "cpu",
) -> None:
    """Fine-tune with every combination of the given values, and score each on held-out examples.

    They are the last training examples; the test set is not looked at. Weights are not stored;
    put the best values into a profile and train.

    Example: headprune tune cola --epochs 3 --epochs 10 --learning-rate 1e-4
    """
    from headprune_lib.replication.data import TASKS
    from headprune_lib.replication.encoder import tuning
    from headprune_lib.replication.profiles import load_profile

    with refusing():
        settings = load_profile(profile, task=task, seed=seed, data=data, device=device)
        own = settings.finetuning
        recipes = [
            dataclasses.replace(own, epochs=e, learning_rate=rate, batch_size=size)
            for e in epochs or [own.epochs]
            for rate in learning_rate or [own.learning_rate]
            for size in batch_size or [own.batch_size]
        ]
        metric = TASKS[settings.task].metric
        for trial in tuning.tune(settings, recipes, n_held_out):
            of = trial.finetuning
            typer.echo(
                f"epochs {of.epochs}, learning rate {of.learning_rate:g}, batches of "
                f"{of.batch_size}: {metric} {trial.score:.3f}, accuracy {trial.accuracy:.3f}, "
                f"log-loss {trial.log_loss:.3f} ({trial.n_held_out} examples)"
            )


def _train_translator(
    settings, task: str, seed: int | None, retrain: bool, publish: bool, model: str | None
) -> None:
    from headprune_lib.replication.translation import training, weights

    seed = settings.translation_seed if seed is None else seed
    model = settings.translation_model if model is None else model
    folder = training.train(settings, task, seed, model=model, retrain=retrain)
    for path in weights.publish(settings, task, seed, model) if publish else [folder]:
        typer.echo(short(path))


@app.command(rich_help_panel=PANEL)
def translate(
    task: Annotated[str, typer.Argument(help="enfr or deen.")],
    sentences: Annotated[
        list[str] | None, typer.Argument(help="Sentences; read from standard input if left out.")
    ] = None,
    beams: Annotated[int, typer.Option(help="1 is greedy.")] = 5,
    profile: ProfileName = "default",
) -> None:
    """Translate sentences with a trained model, a line each.

    Example: headprune translate enfr "In the beginning God created the heavens and the earth."
    """
    from headprune_lib.replication.profiles import load_profile
    from headprune_lib.replication.translation.weights import load_translator

    given = sentences or sys.stdin.read().splitlines()
    with refusing():
        for line in load_translator(load_profile(profile), task).translate(given, beams=beams):
            typer.echo(line)


@app.command("findings", rich_help_panel=PANEL)
def update_findings() -> None:
    """Write the README's verdict table and figure from the stored results."""
    from headprune_lib.replication.pages.findings import write_findings

    with refusing():
        for path in write_findings():
            typer.echo(short(path))


@app.command("bench", rich_help_panel=PANEL)
def run_bench(
    half: Annotated[str, typer.Argument(help="encoder or translation.")] = "encoder",
    profile: ProfileName = "default",
    n_sentences: Annotated[int, typer.Option(help="Test sentences timed.")] = 256,
    rounds: Annotated[int, typer.Option(help="Rounds of each comparison, after a warm-up.")] = 5,
    output: Annotated[
        Path | None,
        typer.Option(
            help="The figures, as JSON; bench.<half>.json beside the results if left out."
        ),
    ] = None,
) -> None:
    """Time a half's computations against their references, in one run."""
    from headprune_lib.replication.bench import bench
    from headprune_lib.replication.pages.tables import bench_table
    from headprune_lib.replication.paths import bench_path
    from headprune_lib.replication.profiles import load_profile
    from headprune_lib.replication.store import plain, provenance
    from headprune_lib.replication.store.files import replace_files

    started = time.monotonic()
    with refusing():
        settings = load_profile(profile)
        rows = bench(half, settings, n_sentences=n_sentences, rounds=rounds)
    command = (
        f"headprune bench {half} --profile {profile} --n-sentences {n_sentences} --rounds {rounds}"
    )
    found = {"rows": rows, "provenance": provenance(command, time.monotonic() - started)}
    target = output or bench_path(half, settings.folder)
    content = json.dumps(plain(found), indent=1, sort_keys=True) + "\n"
    replace_files({target: content.encode()})
    typer.echo(bench_table(target).to_string(index=False))
    typer.echo(f"written to {short(target)}")
