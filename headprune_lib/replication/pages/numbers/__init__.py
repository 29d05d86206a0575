"""The numbers in a page's prose: one function a page, from results to glue key -> value.

A value is a number where the page's own results always have it. Where a result, or a part of one,
may be missing it is text, and says ``not measured`` then: no other result takes its place.
"""

from headprune_lib.replication.pages.numbers.across_datasets import across_datasets
from headprune_lib.replication.pages.numbers.all_but_one import all_but_one
from headprune_lib.replication.pages.numbers.board import board
from headprune_lib.replication.pages.numbers.independent import independent
from headprune_lib.replication.pages.numbers.iterative_pruning import iterative_pruning
from headprune_lib.replication.pages.numbers.language_model import language_model, other_text
from headprune_lib.replication.pages.numbers.recovery import recovery
from headprune_lib.replication.pages.numbers.scores import scores
from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.numbers.which_first import which_first

__all__ = [
    "Numbers",
    "across_datasets",
    "all_but_one",
    "board",
    "independent",
    "iterative_pruning",
    "language_model",
    "other_text",
    "recovery",
    "scores",
    "which_first",
]
