"""The command itself, its version, and its error messages."""

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
    """The path relative to the current folder if it is inside it, else unchanged."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def refuse(message: str) -> NoReturn:
    """End with one line on standard error and exit code 2."""
    typer.echo(f"headprune: {message}", err=True)
    raise typer.Exit(2)


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn input errors (a wrong value, an unreadable file) into one line and exit code 2.

    Running out of memory is treated alike, since other options may prevent it.
    """
    try:
        yield
    except (ValueError, OSError) as error:
        refuse(" ".join(str(error).split()))
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        refuse(
            f"out of memory ({one_line(error, 120)}). Use another --device, fewer or shorter texts, "
            "or smaller batches: --help lists the options"
        )


def check_new(out: Path) -> None:
    """Refuse an output file or folder that cannot be written, before any work is done.

    Nothing is overwritten; an empty folder is accepted.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        refuse(f"{out} exists and is not overwritten. Give a new path")
    parent = next(folder for folder in out.absolute().parents if folder.exists())
    try:
        tempfile.TemporaryFile(dir=parent).close()  # permissions alone do not tell for every folder
    except OSError as error:
        refuse(f"{out} cannot be created in {parent} ({error.strerror}). Give another path")


def check_table(path: Path) -> Path:
    """Return the path of a table of texts; FileNotFoundError or ValueError if it is none."""
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}{did_you_mean(path)}")
    if path.suffix.lower() not in (".tsv", ".csv", ".jsonl", ".json"):
        raise ValueError(f"{path} is not a .tsv, .csv or .jsonl file")
    return path


def did_you_mean(path: str | Path, known: Iterable[str] = ()) -> str:
    """Return similar names, as the end of a message about a missing file; empty without any.

    Args:
        known: names that may have been meant, besides the files in the same folder.
    """
    path, names = Path(path), list(known)
    with suppress(OSError):
        names += [str(other) for other in path.parent.iterdir() if other != path]
    near = difflib.get_close_matches(str(path), names, cutoff=0.8)
    return f" (did you mean {' or '.join(near)}?)" if near else ""
