"""The translation half: tables 1, 2 and 5, figures 1a, 2a, 3a, 4, 5 and 6d.

And what they stand on: how well the models translate, and how the search ranks heads.
"""

from headprune_lib.experiments.translation import (
    across_datasets,
    all_but_one,
    dynamics,
    iterative,
    one_head,
    quality,
    search,
)

ARTIFACTS = (
    *quality.ARTIFACTS,
    *search.ARTIFACTS,
    *one_head.ARTIFACTS,
    *all_but_one.ARTIFACTS,
    *across_datasets.ARTIFACTS,
    *iterative.ARTIFACTS,
    *dynamics.ARTIFACTS,
)
