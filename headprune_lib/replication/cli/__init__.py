"""The commands that replicate the paper."""

from headprune_lib.cli.app import app
from headprune_lib.replication.cli import gpu, measuring, pages, results, training

# importing these modules registers the commands and the names of models
__all__ = ["app", "gpu", "measuring", "pages", "results", "training"]
