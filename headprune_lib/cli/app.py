"""The command itself, its version, and how it refuses."""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from headprune_lib.messages import one_line, out_of_memory

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Replicate “Are Sixteen Heads Really Better than One?” and prune attention heads.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headprune {version('headprune')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


def short(path: Path) -> str:
    """A path as it is seen from the current folder."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def refuse(message: str) -> NoReturn:
    """End with one line on standard error and exit code 2."""
    typer.echo(f"headprune: {message}", err=True)
    raise typer.Exit(2)


@contextmanager
def user_errors() -> Iterator[None]:
    """Errors of input become one line and code 2: a wrong value, a file that cannot be read.

    So does a lack of memory, which other options may mend.
    """
    try:
        yield
    except (ValueError, OSError) as error:
        refuse(" ".join(str(error).split()))
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        refuse(
            "out of memory: lower --batch-size or --max-length, or take another --device "
            f"({one_line(error, 120)})"
        )


def check_new(out: Path) -> None:
    """Refuse a file or folder that cannot be written, before work is spent on it.

    Nothing is overwritten; an empty folder will do.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        refuse(f"{out} exists and is not overwritten; name a new one")
    parent = next(folder for folder in out.absolute().parents if folder.exists())
    try:
        tempfile.TemporaryFile(dir=parent).close()  # rights alone do not say it of every folder
    except OSError as error:
        refuse(f"{out} cannot be written into {parent} ({error.strerror}); name another place")


def check_table(path: Path) -> Path:
    """The path of a table of texts; FileNotFoundError or ValueError for another."""
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}{did_you_mean(path)}")
    if path.suffix.lower() not in (".tsv", ".csv", ".jsonl", ".json"):
        raise ValueError(f"{path} is neither .tsv, .csv nor .jsonl")
    return path


def did_you_mean(path: str | Path, known: Iterable[str] = ()) -> str:
    """The end of a message about a file that does not exist: names like it; empty without any.

    Args:
        known: what could have been meant beside the files in the same folder.
    """
    path, names = Path(path), list(known)
    with suppress(OSError):
        names += [str(other) for other in path.parent.iterdir() if other != path]
    near = difflib.get_close_matches(str(path), names, cutoff=0.8)
    return f"; did you mean {' or '.join(near)}?" if near else ""
