"""The ``headprune`` command."""

import sys
from importlib.metadata import entry_points

from headprune_lib.cli import commands
from headprune_lib.cli.app import app

__all__ = ["app", "commands", "main"]


def main() -> None:
    """Run the command, with those of installed extras beside its own."""
    try:
        for plugin in entry_points(group="headprune.commands"):
            plugin.load()
        app()
    except ModuleNotFoundError as error:
        if (error.name or "headprune_lib").startswith("headprune_lib"):
            raise  # no package that an extra brings
        print(f"headprune: this needs {error.name}, which is not installed: "
              "pip install 'headprune[book]'", file=sys.stderr)
        sys.exit(2)
