"""What all commands share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

ProfileName = Annotated[str, typer.Option(help="Which set of parameters: smoke, default or base.")]
Data = Annotated[str | None, typer.Option(
    help="Folder with the public benchmarks, or hub; $HEADPRUNE_DATA if left out.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, …")]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Replicate “Are Sixteen Heads Really Better than One?” and prune attention heads.",
)


def short(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def refuse(message: str) -> NoReturn:
    typer.echo(f"headprune: {message}", err=True)
    raise typer.Exit(2)


@contextmanager
def refusing() -> Iterator[None]:
    """Errors of input, a missing file or a wrong value, become one line and exit code 2."""
    try:
        yield
    except (ValueError, FileNotFoundError) as error:
        refuse(str(error))
