"""Results measured here, compared with the committed ones and the paper."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headprune_lib.cli.app import refuse, short
from headprune_lib.messages import one_line, unknown
from headprune_lib.replication.cli.options import command
from headprune_lib.replication.lazy import measurements, profiles, store
from headprune_lib.replication.paths import cache_root, project_root, results_root

if TYPE_CHECKING:
    from headprune_lib.replication.store import Result


@command()
def results(
    artifact: Annotated[
        str | None, typer.Argument(help="List only this table, figure or measurement.")
    ] = None,
) -> None:
    """List what was measured here: when, on what, how it differs from the committed result, and where.

    These are all results with parameters of your own, and those in data/results that differ from
    git's.
    """
    from headprune_lib.replication.paper import ARTIFACTS

    wanted = ARTIFACTS[artifact].measurement if artifact in ARTIFACTS else artifact
    if wanted is not None and wanted not in measurements.MEASUREMENTS:
        refuse(unknown("artifact", wanted, {*ARTIFACTS, *measurements.MEASUREMENTS}))
    paths = sorted(_measured_here(wanted or "*"), key=lambda path: path.stat().st_mtime)
    for path in paths:
        try:
            result = store.load(store.Key.at(path), path.parents[1])
            typer.echo("\n".join([*_about(result), *compared(result, path)]) + "\n")
        except (ValueError, KeyError, TypeError) as error:
            typer.echo(f"{short(path)}: cannot be read ({one_line(error)})\n", err=True)
    if not paths:
        typer.echo("Nothing was measured here yet. Begin with: headprune reproduce figure1b")


def _measured_here(measurement: str) -> Iterator[Path]:

    yield from (cache_root() / "results").glob(f"*/{measurement}/*.json")
    root, project = results_root(), project_root()
    if not root.is_relative_to(project):
        yield from root.rglob(f"{measurement}/*.json")
        return
    words = ["git", "-C", str(project), "status", "--porcelain", "-uall", "--", str(root)]
    try:
        listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return  # no git, or no checkout of it: nothing tells what is committed
    changed = [project / line[3:].strip('"') for line in listed.splitlines()]
    yield from (p for p in changed if p.is_file() and p.match(f"{measurement}/*.json"))


def _about(result: Result) -> Iterator[str]:
    from headprune_lib.replication.titles import machine

    provenance = result.provenance
    yield (
        f"{'/'.join(result.key)}: {result.n_examples} of {result.dataset}, {provenance['date'][:16]}, "
        f"{machine(provenance['hardware'])}"
    )
    yield f"  {provenance['command']}"


def said_before(path: Path) -> list[str]:
    """Lines on the profile's own result at a path that another is about to replace."""
    is_committed = path.is_relative_to(root := results_root())
    result = store.stored(store.Key.at(path), path.parents[1]) if is_committed else None
    return [*_said(result, root)] if result else []


def compared(result: Result, path: Path, before: Iterable[str] = ()) -> Iterator[str]:
    """Lines on a result, the committed one and the paper, and on where it is stored.

    Args:
        before: lines on the committed result, if this one took its place.
    """
    from headprune_lib.replication.claims.rules import CLAIMS

    yield from (f"  here       {line}" for line in _said(result, path.parents[1]))
    committed = None if before else _committed(result, path)
    before = _said(committed, None) if committed else before
    yield from (f"  committed  {line}" for line in before)
    half = measurements.half_of(result)
    for claim in CLAIMS.values():
        if claim.measurement == result.measurement and half in claim.halves:
            yield f"  paper      {claim.id}: {claim.paper_value}"
    yield f"  in         {short(path)}"


def _said(result: Result, root: Path | None) -> Iterator[str]:
    """The numbers that claims rest on, with their intervals; else the model's scores."""
    from headprune_lib.replication.claims.evidence import rows_of

    judged = [
        f"{', '.join(filter(None, (row.claim, row.setting, training)))}: {row.judged.measured}"
        for training, one in _apart(result)
        for row in rows_of(one, root)
    ]
    yield from judged or [*_scores(result)] or ["no number that a claim is judged by: see the file"]


def _apart(result: Result) -> Iterator[tuple[str, Result]]:
    """The result; or each of its trainings under its name, where claims take the first alone."""
    from headprune_lib.replication.claims.rules import LEAST_TRAININGS

    every = dict(result.values.get("further", {}))
    if not 0 < len(every) < LEAST_TRAININGS - (store.OUTCOMES in result.parts):
        yield "", result
        return
    if first := result.parts.get(store.OUTCOMES):
        values = {name: value for name, value in result.values.items() if name != "further"}
        every = {f"training {first.runs[0]['seed']}": values, **every}
    for name, values in every.items():
        yield name, replace(result, values=values)


def _scores(result: Result) -> Iterator[str]:
    """The scores of the model with all its heads, of each recipe, and along each curve."""
    for row in result.values.get("recipes", ()):
        low, high = row["interval"]
        yield (
            f"{row['epochs']} epochs, rate {row['learning_rate']:g}, batches of {row['batch_size']}: "
            f"{result.metric} {row['score']:.3f} [{low:.3f}, {high:.3f}]"
        )
    baselines = {**result.values.get("baseline", {}), **result.values.get("baselines", {})}
    yield from (
        f"{name.replace('.', ', ')} {value:.4g}"
        for name, value in measurements.flat(baselines)
        if isinstance(value, float)
    )
    shares = result.values.get("shares", ())
    for order, curve in result.values.get("curves", {}).items():
        named = "perplexity" if "perplexity" in curve else "mean"
        uncut, *cut = zip(shares, curve[named], strict=False)
        steps = ", ".join(f"{score:.4g} without {share:.0%}" for share, score in cut)
        metric = named if named == "perplexity" else result.metric
        yield f"{order}: {metric} {uncut[1]:.4g} with all heads, {steps}"


def _committed(result: Result, path: Path) -> Result | None:
    """The committed result of the same model and task, else the profile's; never the same file."""
    from headprune_lib.replication.measurements.obtaining import results_folder

    profile = profiles.load_profile(result.profile)
    half, root = measurements.HALF_OF[measurements.half_of(result)], results_folder(profile)
    task = half.task(profile)
    usual = store.Key(result.measurement, task, half.model(profile, task))
    keys = [key for key in (result.key, usual) if key.path(root) != path]
    return next((committed for key in keys if (committed := store.stored(key, root))), None)
