"""The ``headprune`` command."""

from importlib.metadata import entry_points

from headprune_lib.cli import commands
from headprune_lib.cli.common import app

__all__ = ["app", "commands", "main"]


def main() -> None:
    """Run the command, with those of installed extras beside its own."""
    for plugin in entry_points(group="headprune.commands"):
        plugin.load()
    app()
