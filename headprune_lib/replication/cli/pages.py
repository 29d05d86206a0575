"""Commands that run notebooks and update the README."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand

from headprune_lib.cli.app import refuse, short
from headprune_lib.replication.cli.options import command, resumable


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


@command(cls=_NameValuePairs)
def run(
    notebooks: Annotated[
        list[str], typer.Argument(help="Notebooks by number, by name (01_one_head) or by path.")
    ],
    parameter: Annotated[
        list[str] | None,
        typer.Option("-p", "--parameter", metavar="NAME VALUE", help="Set a parameter."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="File or folder for the executed notebook. If left out, the notebook itself; with "
            "parameters <name>-run.ipynb in the current folder, with an HTML page next to it."
        ),
    ] = None,
) -> None:
    """Run notebooks of the book, with a task, model or size of your own if you like.

    Wrong values are refused before anything runs.
    """
    from headprune_lib.replication.lazy import papermill
    from headprune_lib.replication.pages.notebooks import (
        HOW_NOT_WHAT,
        check_values,
        find_notebook,
        name_of_rerun,
        parse_value,
        run_notebook,
    )
    from headprune_lib.replication.pages.page import WrongParameter

    # The kernels inherit this: tqdm would advise each of them to install widgets.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:IProgress not found")
    if output is not None and len(notebooks) > 1:
        refuse("--output takes one notebook at a time")
    if output is not None and not output.is_dir() and output.suffix != ".ipynb":
        refuse(f"--output is {output}. Give a folder, or a name that ends in .ipynb")
    pairs = (pair.partition("=") for pair in parameter or [])
    parameters = {name: parse_value(value) for name, _, value in pairs}
    sources = [find_notebook(name) for name in notebooks]
    for source in sources:
        check_values(source, parameters)
    for source in sources:
        started = time.monotonic()
        try:
            with resumable():
                target, rerun = output, not parameters.keys() <= HOW_NOT_WHAT
                if rerun and (output is None or output.is_dir()):
                    target = name_of_rerun(output or Path(), source.stem, parameters)
                elif output is not None and output.is_dir():
                    target = output / source.name
                written = run_notebook(source, parameters, target)
        except papermill.PapermillExecutionError as error:
            if error.ename == WrongParameter.__name__:
                refuse(error.evalue)
            typer.echo(f"{error}\n{source.name} failed and was not written.", err=True)
            raise typer.Exit(1) from None
        typer.echo(f"{short(written)}  {time.monotonic() - started:.0f} s")


@command("open")
def open_notebook(
    notebook: Annotated[str, typer.Argument(help="A number or name, such as 01, or a path.")],
) -> None:
    """Open a copy of a notebook in Jupyter, in the current folder; your own copy is kept."""
    import subprocess

    from headprune_lib.replication.pages.notebooks import find_notebook, open_copy

    copy, words = open_copy(find_notebook(notebook), Path.cwd())
    typer.echo(f"{short(copy)} is your own copy: change it as you like")
    raise typer.Exit(subprocess.run(words, check=False).returncode)


@command("findings", hidden=True)
def update_findings() -> None:
    """Write the README's verdict table and figure from the stored results."""
    from headprune_lib.replication.pages.findings import write_findings

    for path in write_findings():
        typer.echo(short(path))
