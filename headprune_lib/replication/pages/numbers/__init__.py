"""The numbers in a page's prose: one function a page, from results to glue key -> value.

A value is a number where the page's own results always have it. Where a result, or a part of one,
may be missing it is text, and says ``not measured`` then: no other result takes its place.
"""

from headprune_lib.replication.pages.numbers.across_datasets import across_datasets
from headprune_lib.replication.pages.numbers.all_but_one import all_but_one
from headprune_lib.replication.pages.numbers.independent import independent
from headprune_lib.replication.pages.numbers.iterative_pruning import iterative_pruning
from headprune_lib.replication.pages.numbers.types import Numbers

__all__ = [
    "Numbers",
    "across_datasets",
    "all_but_one",
    "independent",
    "iterative_pruning",
]
