"""The command for a machine whose GPU is available for a while."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from headprune_lib.cli.app import app, short, user_errors
from headprune_lib.messages import one_line
from headprune_lib.replication.cli.options import WITH_FOLDERS
from headprune_lib.replication.lazy import planning, profiles, store, torch


@app.command(cls=WITH_FOLDERS, hidden=True)
def gpu(
    profile: Annotated[
        str, typer.Option(help="List of steps: default, or smoke, which takes seconds.")
    ] = "default",
    minutes: Annotated[
        float, typer.Option(min=0, help="Time limit; a step that may exceed it is skipped.")
    ] = 15,
    device: Annotated[
        str | None,
        typer.Option(help="cpu, cuda, …; if left out the GPU, or only a check without one."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            envvar="OUT",
            help="Folder that each result is also copied to, as soon as it is stored in its own "
            "place.",
        ),
    ] = None,
) -> None:
    """Check this machine's GPU, then measure what needs one, the most wanted first.

    Table 4 in BERT-base's shape comes first and needs no text; then further fine-tunings of MiniLM;
    then Figure 5 in the shape of the paper's IWSLT model. The same command resumes after an
    interruption. A step that fails is named, and the next one follows.
    """
    from headprune_lib.replication import gpu as lists
    from headprune_lib.replication.measurements.obtaining import results_folder
    from headprune_lib.replication.store.files import check_writable, replace_files

    started = time.monotonic()
    with user_errors():
        judged, steps = lists.read_list(profile)
        lacking = device is None and not torch.cuda.is_available()
        device = device or ("cpu" if lacking else "cuda")
        profiles.check_here(profiles.load_profile("smoke", device=device))
        path = (out or results_folder(profiles.load_profile(profile))) / "gpu.json"
        check_writable(path.parent)
    about: dict[str, Any] = {"check": {}, "steps": []}

    def write() -> None:
        seconds, command = time.monotonic() - started, f"headprune gpu --profile {profile}"
        about["provenance"] = store.provenance(command, seconds, [store.computing_on(device)])
        content = json.dumps(about, indent=1, sort_keys=True, default=asdict)
        replace_files({path: f"{content}\n".encode()})

    if lacking:
        typer.echo("There is no GPU here, so the CPU is checked.")
    try:
        about["check"] = lists.check(device, judged)
        typer.echo("\n".join(_words(about["check"], judged)))
    except Exception as error:  # the measurements may still succeed
        typer.echo(f"check: failed, {one_line(error)}")
    if lacking:
        typer.echo("Nothing was measured. Give --device cpu to measure on the CPU.")
        raise typer.Exit(1)
    write()
    for record in lists.run(steps, device, started + 60 * minutes, out):
        typer.echo("{step}: {state} in {seconds:.0f} s, {told}".format_map(record))
        about["steps"].append(record)
        write()
    states = Counter(record["state"] for record in about["steps"])
    counted = ", ".join(f"{n} {state}" for state, n in states.items())
    typer.echo(f"{counted} in {(time.monotonic() - started) / 60:.1f} min; see {short(path)}")
    if states["failed"] or not about["check"].get("agrees"):
        raise typer.Exit(1)


def _words(checked: dict, profile: str) -> Iterator[str]:
    memory, needed = checked["memory"], checked["needed"]
    yield checked["device"] + (f", {memory / 1e9:.1f} GB of memory" if memory else "")
    for way, apart in checked["apart"].items():
        yield f"{way} attention: differs from the CPU in float32 by {apart:.1e} of the largest value"
    yield "It agrees with the CPU." if checked["agrees"] else "It does NOT agree with the CPU."
    for speed, tasks in planning.told(checked["probes"]).items():
        yield f"{', '.join(tasks)}: {speed}"
    lacks = memory is not None and needed > memory
    yield (
        f"Profile {profile} takes {needed / 1e9:.1f} GB of memory at least"
        f"{', MORE than there is,' if lacks else ''} and {checked['hours']:.1f} hours at most."
    )
