"""The ``headprune`` command."""

import sys
from importlib.metadata import entry_points
from typing import Any

import typer

from headprune_lib.cli import commands
from headprune_lib.cli.app import app

__all__ = ["app", "commands", "main"]

_UsageError: Any = typer.BadParameter.__base__  # click's class, which later typers bundle


def main() -> None:
    """Run the command, with the subcommands of installed plugins besides its own."""
    try:
        for plugin in entry_points(group="headprune.commands"):
            plugin.load()
        sys.exit(app(sys.argv[1:] or ["--help"], prog_name="headprune", standalone_mode=False))
    except _UsageError as error:
        of = error.ctx.command_path if error.ctx else "headprune"
        message = f"{error.format_message()} (see {of} --help)"
    except ModuleNotFoundError as error:
        if (error.name or "headprune_lib").startswith("headprune_lib"):
            raise  # our own module, not one that an extra installs
        message = f"this needs {error.name}, which is not installed: pip install 'headprune[book]'"
    except OSError as error:  # a full disk, a folder that may not be written to
        message = str(error)
    typer.echo(f"headprune: {message}", err=True)
    sys.exit(2)
