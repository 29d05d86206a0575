"""Commands that compute: measuring, verifying, timing and planning."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headprune_lib.cli.app import refuse, short
from headprune_lib.messages import one_line, unknown
from headprune_lib.replication.cli.options import (
    FOLDERS,
    Data,
    DeviceName,
    ProfileName,
    Scheduler,
    Values,
    Workers,
    command,
    read_values,
    resumable,
    spread,
)
from headprune_lib.replication.cli.results import compared, said_before
from headprune_lib.replication.lazy import measurements, pandas, planning, profiles, store

if TYPE_CHECKING:
    from headprune_lib.replication.profiles import Profile
    from headprune_lib.replication.store import Result
    from headprune_lib.replication.verification.again import Quantity


def _spelled(artifact: str) -> str:
    """Normalise the spelling of an artifact, such as ``"Figure 1b"`` to ``figure1b``."""
    return artifact if "/" in artifact else artifact.replace(" ", "").lower()


Artifact = Annotated[
    str,
    typer.Argument(
        callback=_spelled,
        help="A table or figure of the paper, such as figure1b, a measurement, such as one_head, or "
        "all: everything that the profile measures and that is not stored yet.",
    ),
]
Task = Annotated[str | None, typer.Option(help="Task to use in place of the profile's.")]
ModelName = Annotated[
    str | None,
    typer.Option(
        help="Model to use in place of the profile's: a name, a folder that save_pretrained wrote "
        "(fine-tuned or not), or a name on the Hugging Face Hub."
    ),
]
_how_much = partial(typer.Option, rich_help_panel="How much is measured")


@command()
def reproduce(
    artifact: Artifact,
    profile: ProfileName = "default",
    task: Task = None,
    model: ModelName = None,
    by: Annotated[
        list[str] | None,
        _how_much(
            help="Measure only this part: for a pruning curve an order of removal or a criterion "
            "(`headprune criteria`), else a training such as 'training 2'; may be repeated.",
        ),
    ] = None,
    n_examples: Annotated[int | None, _how_much(help="Only this many test sentences.")] = None,
    n_verses: Annotated[int | None, _how_much(help="Only this many test verses.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the fine-tuning or training.")] = None,
    data: Data = None,
    device: DeviceName = None,
    values: Values = None,
    # a flag names itself, since typer would otherwise add its opposite
    stored: Annotated[
        bool, _how_much("--stored", help="Use a stored result that fits the options.")
    ] = False,
    dry_run: Annotated[
        bool, _how_much("--dry-run", help="Say what would be measured, and where.")
    ] = False,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Measure a table or figure, store it, and compare it with the committed result and the paper.

    Stored weights are used; others are trained first. On fewer texts than the profile has,
    only the first training is measured. With a model or values of your own the result is stored in a
    folder of its own, and the committed one stays.
    """
    from headprune_lib.replication.engine import in_turn

    settings, pair = measurements.asked(
        artifact,
        profile,
        task=task,
        model=model,
        parts=by,
        n_examples=n_examples,
        n_verses=n_verses,
        seed=seed,
        values=read_values(values, data=data, device=device),
    )
    if scheduler is None:  # workers of a scheduler compute on what they have
        profiles.check_here(settings)
    names = measurements.artifacts(settings) if artifact == "all" else [artifact]
    fresh = not stored and artifact != "all"
    if dry_run:
        for name in names:
            _would_measure(name, settings, pair, by, fresh=fresh)
        return
    missed = []
    with resumable(), spread(workers, scheduler):
        if artifact == "all":
            reached = in_turn([partial(_reached, name, settings) for name in names], "all")
            missed = [name for name, there in zip(names, reached, strict=True) if not there]
        else:
            path = measurements.where(artifact, settings, pair, by)
            before = said_before(path)
            result = measurements.get(
                artifact,
                settings,
                task=pair,
                parts=by,
                fresh=fresh,
                checked=True,
                announce=planning.announce,
            )
            _tell(artifact, result, path, before)
    if missed:
        typer.echo(f"not measured: {', '.join(missed)}. Run the same command to continue", err=True)
        raise typer.Exit(1)


def _reached(artifact: str, settings: Profile) -> bool:
    """Get a result and report it; report an error and return False if that fails."""
    try:
        result = measurements.get(artifact, settings, checked=True, announce=planning.announce)
        _tell(artifact, result, measurements.where(artifact, settings))
    except (ValueError, OSError, MemoryError, RuntimeError) as error:  # UnitsFailed among them
        typer.echo(f"{artifact}: {one_line(error)}", err=True)
        return False
    return True


class _Told(Exception):
    pass


def _would_measure(
    artifact: str, settings: Profile, pair: str | None, by: list[str] | None, *, fresh: bool
) -> None:
    """Say what would be measured, and where it is or would be stored."""

    def begin(upcoming: measurements.Upcoming) -> None:
        planning.announce(upcoming)
        raise _Told

    path, state = measurements.where(artifact, settings, pair, by), "is stored in"
    try:
        measurements.get(
            artifact, settings, task=pair, parts=by, fresh=fresh, checked=True, announce=begin
        )
    except _Told:
        state = "would be stored in"
    typer.echo(f"{artifact} {state} {short(path)}")


def _tell(artifact: str, result: Result, path: Path, before: Sequence[str] = ()) -> None:
    from tqdm import tqdm

    seconds = sum(part.provenance["seconds"] for part in result.parts.values())
    baseline = result.values.get("baseline", {})
    quality = (
        f"BLEU {baseline['bleu']:.2f} of Moses' tokens, {baseline['sacrebleu']:.2f} as sacrebleu "
        "takes it, "
        if "sacrebleu" in baseline
        else ""
    )
    told = f"{artifact}: {result.n_examples} examples, {quality}measured in {seconds:.0f} s"
    tqdm.write("\n".join([told, *compared(result, path, before)]))  # above the progress bar


@command()
def verify(
    artifact: Annotated[
        str,
        typer.Argument(
            callback=_spelled,
            help="A table, figure or measurement, whose model is trained again; or a committed result, "
            "such as one_head/reviews.minilm, or all of them, whose values and drawn outcomes are "
            "computed again.",
        ),
    ],
    profile: ProfileName = "default",
    task: Task = None,
    model: ModelName = None,
    drawn_seed: Annotated[int, typer.Option(help="Seed for drawing texts.")] = 0,
    data: Data = None,
    device: DeviceName = None,
) -> None:
    """Compute a stored result again and compare: exit code 1 if they differ.

    A training is kept apart in the cache and resumes after an interruption; stored results do not
    change. Checks of committed results are recorded in data/verified.json.
    """
    from headprune_lib.replication.data import OWN_TEXTS
    from headprune_lib.replication.models.pretrained import BASES
    from headprune_lib.replication.verification.retrained import verify

    if artifact == "all" or "/" in artifact:
        given = {"task": task, "model": model, "data": data, "device": device}
        if without := [f"--{name}" for name, value in given.items() if value is not None]:
            refuse(f"{artifact} says what is checked. Leave out {', '.join(without)}")
        _check_committed(artifact, drawn_seed)
        return
    settings, pair = measurements.asked(
        artifact, profile, task=task, model=model, values={"data": data, "device": device}
    )
    if {settings.task, pair, settings.language_task} & {*OWN_TEXTS} or BASES[settings.model].given:
        refuse(
            "verify checks the committed results, not your own. Measure yours again, with "
            "HEADPRUNE_RESULTS set to another folder, and compare"
        )
    profiles.check_here(settings)
    with resumable():
        done = verify(artifact, settings, task=pair, drawn_seed=drawn_seed)
    same = done.measured == done.trained
    typer.echo(f"{' '.join(done.key)}: measured on weights {done.measured}")
    typer.echo(f"trained again: {'the same weights' if same else done.trained}")
    _show(done.quantities)
    if not done.agrees:
        raise typer.Exit(1)


def _check_committed(name: str, drawn_seed: int) -> None:
    """Check one committed result or all, and record each finding at once."""
    from headprune_lib.replication.verification import records

    keys = {records.name_of(key): key for key in store.find()}
    if name != "all" and name not in keys:
        refuse(unknown("committed result", name, keys))
    disagreeing = []
    for each in keys if name == "all" else [name]:
        record, quantities = records.check(keys[each], drawn_seed=drawn_seed)
        records.write_records({each: record})
        missing = f"; not found again: {record['not at hand']}" if record["not at hand"] else ""
        typer.echo(
            f"{each}: {len(quantities)} quantities, {len(record['disagree'])} differ{missing}"
        )
        if record["disagree"]:
            _show([quantity for quantity in quantities if not quantity.agrees])
            disagreeing.append(each)
    if disagreeing:
        raise typer.Exit(1)


def _show(quantities: Sequence[Quantity]) -> None:
    rows = [
        (each.name, each.stored, each.found, each.bound, "yes" if each.agrees else "NO")
        for each in quantities
    ]
    columns = ["quantity", "stored", "found again", "bound", "agrees"]
    typer.echo(pandas.DataFrame(rows, columns=columns).to_string(index=False))


@command("bench", hidden=True)
def run_bench(
    half: Annotated[str, typer.Argument(help="encoder, criteria, sweeps or onnx.")] = "encoder",
    profile: ProfileName = "default",
    n_sentences: Annotated[int, typer.Option(min=1, help="Number of test sentences.")] = 256,
    rounds: Annotated[
        int, typer.Option(min=1, help="Rounds of each comparison, after a warm-up.")
    ] = 5,
    output: Annotated[
        Path | None,
        typer.Option(
            help="JSON file with the figures of every machine; bench.<half>.json next to the results "
            "if left out."
        ),
    ] = None,
) -> None:
    """Time a half's computations against their references, in one run."""
    from headprune_lib.replication.bench import bench, store_run
    from headprune_lib.replication.paths import bench_path
    from headprune_lib.replication.store.files import check_writable

    started = time.monotonic()
    settings = profiles.load_profile(profile)
    target = output or bench_path(half, settings.folder)
    check_writable(target.parent)
    rows = bench(half, settings, n_sentences=n_sentences, rounds=rounds)
    words = (
        f"headprune bench {half} --profile {profile} --n-sentences {n_sentences} --rounds {rounds}"
    )
    devices = [store.computing_on(settings.device_here)]
    from headprune_lib.replication.pages.tables import bench_table

    store_run(target, rows, store.provenance(words, time.monotonic() - started, devices))
    typer.echo(bench_table(target).to_string(index=False))
    typer.echo(f"written to {short(target)}")


@command(needs=FOLDERS)
def plan(
    artifact: Artifact = "all",
    profile: ProfileName = "paper",
    task: Task = None,
    model: ModelName = None,
    data: Data = None,
    device: DeviceName = None,
    values: Values = None,
) -> None:
    """Show what a profile, or one table or figure, would fetch and compute, and how long it takes.

    Nothing is fetched. Hours come from passes timed now, on a model of the same shape.
    """
    given = read_values(values, task=task, model=model, data=data, device=device)
    settings = profiles.load_profile(profile, **given)
    only = None if artifact == "all" else artifact
    if only is not None:
        measurements.halves_of(only)  # before torch looks for a GPU
    if settings.lacks_gpu:
        typer.echo("There is no GPU here, so times are for the CPU.", err=True)
        settings = profiles.load_profile(profile, **given | {"device": "cpu"})
    profiles.check_here(settings)
    steps, fetched = planning.steps(settings, only), planning.downloads(settings, only)
    probes = planning.probes(settings, steps)
    for name, (size, there) in fetched.items():
        typer.echo(f"fetch  {name}: {size / 1e6:.1f} MB{', already here' if there else ''}")
    left = sum(size for size, there in fetched.values() if not there)
    typer.echo(f"left to fetch: {left / 1e9:.2f} GB")
    hours = [step.hours(probes[step.task]) for step in steps]
    rows = [
        {
            "task": step.task,
            "what": step.what,
            "million passes": f"{step.passes / 1e6:.2f}",
            "million translations": f"{step.translations / 1e6:.3f}" if step.translations else "",
            "state": step.state,
            "hours left": f"{left:.2f}",
        }
        for step, left in zip(steps, hours, strict=True)
    ]
    typer.echo(pandas.DataFrame(rows).to_string(index=False))
    typer.echo(f"{sum(hours):.1f} hours left on {settings.device}")
    for speed, tasks in planning.told(probes).items():
        typer.echo(f"{', '.join(tasks)}: {speed}")
    missing = {"encoder", "translation"} - {*settings.halves}
    if missing:
        typer.echo(f"not in this profile: the paper's {' and '.join(sorted(missing))} half")
