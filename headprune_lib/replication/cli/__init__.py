"""The commands that replicate the paper."""

from headprune_lib.cli.app import app
from headprune_lib.replication.cli import gpu, measuring, named_models, pages, results, training

# importing these modules registers the commands and the names of models
__all__ = ["app", "gpu", "measuring", "named_models", "pages", "results", "training"]
