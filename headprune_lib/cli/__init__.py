"""The ``headprune`` command."""

# the order of the help
from headprune_lib.cli import replication  # isort: skip
from headprune_lib.cli import own  # isort: skip
from headprune_lib.cli.common import app

__all__ = ["app", "own", "replication"]
