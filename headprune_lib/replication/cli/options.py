"""Options that several commands of the replication take."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from headprune_lib.cli.app import refuse, user_errors
from headprune_lib.messages import one_line
from headprune_lib.replication.lazy import profiles, store
from headprune_lib.replication.paths import cache_root, models_root, project_root, results_root

PANEL = "The replication"
ProfileName = Annotated[str, typer.Option(help="Set of parameters: smoke, default, base or paper.")]
DeviceName = Annotated[
    str | None,
    typer.Option(
        help="cpu, cuda, …; the profile's own if left out.", rich_help_panel="Where it runs"
    ),
]
Data = Annotated[
    str | None,
    typer.Option(
        help="Folder with your task (task.yml) or with the public benchmarks, or hub to read them "
        "from the Hugging Face Hub; $HEADPRUNE_DATA if left out."
    ),
]
WHERE = "Where it runs"
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Measure in this many one-thread processes.", rich_help_panel=WHERE),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        help="Dask scheduler whose workers measure: tcp://HOST:PORT, or its .json file.",
        rich_help_panel=WHERE,
    ),
]
Values = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Replace a value of the profile, in YAML, such as steps=20 or speed.repetitions=2; may be "
        "repeated.",
    ),
]


def needing(*folders: Callable[[], Path]) -> type[TyperCommand]:
    """Return a class of commands that fail at once if a folder cannot be found.

    That is before any slow import.
    """

    class Needing(TyperCommand):
        def invoke(self, ctx: typer.Context) -> Any:
            with user_errors():
                for folder in folders:
                    folder()
            return super().invoke(ctx)

    return Needing


IN_CHECKOUT = needing(project_root)
"""Class of commands that read notebooks, committed results or published values."""
WITH_FOLDERS = needing(results_root, models_root)
"""Class of commands that read and write only results and weights."""


def read_values(given: list[str] | None, **options: Any) -> dict[str, Any]:
    """Parse the values of ``--set`` by section, and add the options that are fields of a profile.

    Raises:
        ValueError: no name or value, invalid YAML, or a field that is also given by an option.

    >>> read_values(["steps=20", "checkpoints.pre-norm.epochs=[1, 3]"])
    {'steps': 20, 'checkpoints': {'pre-norm': {'epochs': [1, 3]}}}
    """
    import yaml

    parsed: dict[str, Any] = {}
    for assignment in given or ():
        name, equals, value = assignment.partition("=")
        try:
            read = yaml.safe_load(value)
        except yaml.YAMLError:
            equals = ""
        if not (name and equals):
            raise ValueError(f"--set {assignment!r} is unreadable. Give NAME=VALUE, VALUE in YAML")
        for section in reversed(name.split(".")):
            read = {section: read}
        parsed = profiles.merged(parsed, read)
    options = {name: value for name, value in options.items() if value is not None}
    if twice := parsed.keys() & options.keys():
        raise ValueError(f"{', '.join(sorted(twice))} given twice: by an option and by --set")
    return parsed | options


@contextmanager
def resumable() -> Iterator[None]:
    """Turn an interruption or a full disk into one line: what is kept, and how to go on."""
    kept = f"Finished work is kept in {cache_root()}. To continue, run: headprune {{}}"
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\nheadprune: interrupted. {kept.format(shlex.join(sys.argv[1:]))}", err=True)
        raise typer.Exit(130) from None
    except Exception as error:  # each writer of files has its own error for it
        if "No space left" not in str(error):
            raise
        refuse(f"{one_line(error)}. {kept.format(shlex.join(sys.argv[1:]))}")


@contextmanager
def spread(workers: int | None, scheduler: str | None) -> Iterator[None]:
    """Within the context, run units where the two options say; in this process if neither is given.

    Units that fail end the command with one line and exit code 1.
    """
    if workers is None and scheduler is None:
        yield
        return
    if workers is not None and scheduler is not None:
        refuse("--workers and --scheduler both given. Give one: a scheduler has its own workers")
    from headprune_lib.replication import cluster
    from headprune_lib.replication.engine import running_on

    opened = (
        cluster.local_processes(workers) if scheduler is None else cluster.at_scheduler(scheduler)
    )
    with opened as running, running_on(running):
        try:
            yield
        except store.UnitsFailed as error:
            typer.echo(f"headprune: {error}", err=True)
            raise typer.Exit(1) from None
