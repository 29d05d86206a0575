"""The ``headprune`` command."""

import sys
from importlib.metadata import entry_points

import typer

from headprune_lib.cli import commands, exporting, prune
from headprune_lib.cli.app import app

__all__ = ["app", "commands", "exporting", "main", "prune"]


def main() -> None:
    """Run the command, with those of installed extras beside its own."""
    try:
        for plugin in entry_points(group="headprune.commands"):
            plugin.load()
        app()
    except ModuleNotFoundError as error:
        if (error.name or "headprune_lib").startswith("headprune_lib"):
            raise  # no package that an extra brings
        typer.echo(
            f"headprune: this needs {error.name}, which is not installed: "
            "pip install 'headprune[book]'",
            err=True,
        )
        sys.exit(2)
    except OSError as error:  # a full disk, a folder that may not be written to
        typer.echo(f"headprune: {error}", err=True)
        sys.exit(2)
