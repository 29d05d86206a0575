"""What the commands of the replication share: options, and how a command ends."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from headprune_lib.cli.app import app, refuse, user_errors
from headprune_lib.messages import one_line
from headprune_lib.replication.lazy import profiles, store
from headprune_lib.replication.paths import cache_root, models_root, project_root, results_root

FOLDERS = (results_root, models_root)
"""What a command needs that reads and writes only results and weights."""
_where = partial(typer.Option, rich_help_panel="Where it runs")

ProfileName = Annotated[str, typer.Option(help="Set of parameters: smoke, default, base or paper.")]
DeviceName = Annotated[str | None, _where(help="cpu, cuda, …; the profile's own if left out.")]
Data = Annotated[
    str | None,
    typer.Option(
        help="Folder with your task (task.yml) or with the public benchmarks, or hub to read them "
        "from the Hugging Face Hub; $HEADPRUNE_DATA if left out."
    ),
]
Workers = Annotated[int | None, _where(min=1, help="Measure in this many one-thread processes.")]
Scheduler = Annotated[
    str | None,
    _where(help="Dask scheduler whose workers measure: tcp://HOST:PORT, or its .json file."),
]
Values = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Replace a value of the profile, in YAML, such as steps=20 or speed.repetitions=2; may be "
        "repeated.",
    ),
]


def command(
    name: str | None = None,
    *,
    needs: Sequence[Callable[[], Path]] = (project_root,),
    hidden: bool = False,
    cls: type[TyperCommand] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator that registers a command, which reports input errors in one line.

    Args:
        name: the function's own if not given.
        needs: folders without which the command fails at once, before any slow import.
        hidden: whether ``headprune --help`` leaves the command out.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def run(*given: Any, **named: Any) -> None:
            with user_errors():
                for folder in needs:
                    folder()
                function(*given, **named)

        panel = None if hidden else "The replication"
        return app.command(name, cls=cls, hidden=hidden, rich_help_panel=panel)(run)

    return register


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
