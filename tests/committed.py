"""Cells of committed results, drawn at random and measured again on the committed weights.

A result whose weights or text are not here is skipped by its name, with the reason; committed weights
that are not the measured ones fail.
"""

import random

import pytest

from headprune_lib.replication import store
from headprune_lib.replication.measurements import half_of
from headprune_lib.replication.verification.same_weights import find_again
from headprune_lib.replication.verification.subjects import NotAtHand, subjects_of


def keys(half):
    return [pytest.param(key, id="-".join(key)) for key in store.find() if half_of(key) == half]


def check(key, journal, drawn_seed, n_parts):
    result = store.load(key)
    try:
        subjects = subjects_of(result)
    except NotAtHand as reason:
        pytest.skip(str(reason))
    for subject in subjects:
        generator = random.Random(drawn_seed)
        found = list(find_again(result, subject, journal, generator, n_parts=n_parts))
        assert found, f"nothing of {'/'.join(key)} is found again: verification.sheets must read it"
        assert not [quantity for quantity in found if not quantity.agrees]
