"""Options that several commands of the replication take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headprune_lib.cli.app import refuse, there

if TYPE_CHECKING:
    from headprune_lib.replication.profiles import Profile

PANEL = "The replication"
ProfileName = Annotated[
    str, typer.Option(help="Which set of parameters: smoke, default, base or paper.")
]
DeviceName = Annotated[
    str | None, typer.Option(callback=there, help="cpu, cuda, …; the profile's own if left out.")
]
Data = Annotated[
    str | None,
    typer.Option(help="Folder with the public benchmarks, or hub; $HEADPRUNE_DATA if left out."),
]
Workers = Annotated[
    int | None, typer.Option(help="Measure in this many processes of one thread each.")
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="Measure on the workers of a Dask scheduler: tcp://HOST:PORT, or its file."),
]
Values = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="A value of the profile's in YAML, such as steps=20 or speed.repetitions=2; may be given "
        "several times.",
    ),
]


def check_gpu(profile: Profile) -> None:
    """Raises ValueError where a profile is to run on a GPU, and torch finds none."""
    if profile.lacks_gpu:
        raise ValueError(
            f"profile {profile.name} runs on a GPU, and torch finds none here; install torch's CUDA "
            "build, or give --device cpu, which takes weeks for the paper's models"
        )


def read_values(given: list[str] | None) -> dict[str, Any]:
    """What ``--set`` was given, section by section.

    Raises:
        ValueError: no name, no value, or no YAML.

    >>> read_values(["steps=20", "checkpoints.pre-norm.epochs=[1, 3]"])
    {'steps': 20, 'checkpoints': {'pre-norm': {'epochs': [1, 3]}}}
    """
    import yaml

    from headprune_lib.replication.profiles import merged

    found: dict[str, Any] = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        try:
            read = yaml.safe_load(value)
        except yaml.YAMLError:
            equals = ""
        if not (name and equals):
            raise ValueError(f"--set {one!r}: give NAME=VALUE, the value in YAML")
        for section in reversed(name.split(".")):
            read = {section: read}
        found = merged(found, read)
    return found


@contextmanager
def spread(workers: int | None, scheduler: str | None) -> Iterator[None]:
    """Inside, units of work run where the two options say; in this process if neither is given.

    Units that fail end the command with one line and exit code 1.
    """
    if workers is None and scheduler is None:
        yield
        return
    if workers is not None and scheduler is not None:
        refuse("give --workers or --scheduler, not both: a scheduler has its workers already")
    from headprune_lib.replication import cluster
    from headprune_lib.replication.engine import running_on
    from headprune_lib.replication.store import UnitsFailed

    opened = (
        cluster.local_processes(workers) if scheduler is None else cluster.at_scheduler(scheduler)
    )
    with opened as found, running_on(found):
        try:
            yield
        except UnitsFailed as error:
            typer.echo(f"headprune: {error}", err=True)
            raise typer.Exit(1) from None
