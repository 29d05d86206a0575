"""Outcomes of the smoke profile are found again: mask by mask, text by text, without what makes them fast.

That this notices whatever is changed is tested beside it, in ``verification``.
"""

import pytest

from headprune_lib.replication import measurements
from headprune_lib.replication.verification import records

SINGLE = ("one_head", "all_but_one", "best_heads", "across_domains")
MEASURED = {
    None: (
        *(*SINGLE, "pruning_curve", "which_first", "scoring_examples", "head_roles", "recovery"),
        *("language_heads", "language_curve", "language_recovery"),
    ),
    "toy": (
        *(*SINGLE, "pruning_curve", "pruning_by_kind", "which_first", "along_training"),
        *("quality", "search", "recovery"),
    ),
}
"""A translator's task, or none of one -> what is measured."""
PARTS = {
    (None, "scoring_examples"): ["importance"],
    (None, "which_first"): [  # by which the others are made
        *("importance unnormalised", "entropy", "random", "importance-entropy chosen"),
        *("importance-entropy shuffled", "importance tuned", "entropy training 2"),
    ],
    (None, "recovery"): ["importance 40% all weights", "random 60% LoRA", "uncut 0% LoRA"],
    (None, "language_recovery"): ["removed 0%"],  # of others it is not stored which heads went
    ("toy", "recovery"): ["random 60% all weights", "uncut 0% all weights"],
    ("toy", "which_first"): ["importance", "entropy", "importance tuned"],
}


SLOW = {"which_first", "search", "recovery", "language_curve", "language_recovery"}


@pytest.mark.parametrize(
    ("task", "name"),
    [
        pytest.param(task, name, marks=[pytest.mark.slow] * (name in SLOW))
        for task, names in MEASURED.items()
        for name in names
    ],
)
def test_outcomes_are_found_again(smoke, task, name, drawn_seed):
    result = measurements.get(name, smoke, task=task, parts=PARTS.get((task, name)))
    quantities = records.found_again(result, drawn_seed)
    assert len(quantities) > 1
    assert [quantity for quantity in quantities if not quantity.agrees] == []
