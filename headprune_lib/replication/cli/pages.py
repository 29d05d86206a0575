"""Commands that run notebooks and write what stands in the README."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand

from headprune_lib.cli.app import app, refuse, short, user_errors
from headprune_lib.replication.cli.options import PANEL


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


@app.command(cls=_NameValuePairs, rich_help_panel=PANEL)
def run(
    notebooks: Annotated[
        list[str], typer.Argument(help="Paths, or short names such as 01_one_head.")
    ],
    parameter: Annotated[
        list[str] | None,
        typer.Option("-p", "--parameter", metavar="NAME VALUE", help="Set a parameter."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Where the executed notebook goes. By default in place; with parameters that "
            "change the result, <name>-run.ipynb in the current folder."
        ),
    ] = None,
) -> None:
    """Execute notebooks with papermill, from any working directory."""
    from papermill import PapermillExecutionError

    from headprune_lib.replication.pages.notebooks import (
        HOW_NOT_WHAT,
        find_notebook,
        parse_value,
        run_notebook,
    )
    from headprune_lib.replication.pages.page import WrongParameter

    # The kernels inherit it: tqdm would advise each of them to install widgets.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:IProgress not found")
    if output is not None and len(notebooks) > 1:
        refuse("--output takes one notebook at a time")
    pairs = (pair.partition("=") for pair in parameter or [])
    parameters = {name: parse_value(value) for name, _, value in pairs}
    for name in notebooks:
        started = time.monotonic()
        try:
            with user_errors():
                source = find_notebook(name)
                target = output
                if target is None and not parameters.keys() <= HOW_NOT_WHAT:
                    target = Path(f"{source.stem}-run.ipynb")
                typer.echo(f"{source.stem} …", err=True)
                written = run_notebook(source, parameters, target)
        except PapermillExecutionError as error:
            if error.ename == WrongParameter.__name__:
                refuse(error.evalue)
            typer.echo(f"{error}\n{source.name} failed and was not written.", err=True)
            raise typer.Exit(1) from None
        typer.echo(f"{short(written)}  {time.monotonic() - started:.0f} s")


@app.command("findings", hidden=True)
def update_findings() -> None:
    """Write the README's verdict table and figure from the stored results."""
    from headprune_lib.replication.pages.findings import write_findings

    with user_errors():
        for path in write_findings():
            typer.echo(short(path))
