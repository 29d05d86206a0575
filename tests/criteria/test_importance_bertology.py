"""The old script's loop: ``backward`` adds to a gradient that nobody sets back to zero."""

import torch
from gates import ROUNDING
from hypothesis import given, settings
from hypothesis import strategies as st

from headprune_lib.criteria.importance_bertology import importance_bertology


@settings(max_examples=8, deadline=None)
@given(cuts=st.sets(st.integers(1, 5)))
def test_running_totals_are_summed(model, split, derivatives, cuts):
    parts = derivatives.tensor_split(sorted(cuts))
    gradient, total = torch.zeros(derivatives.shape[1:]).double(), 0
    for part in parts:
        gradient += part.mean(0)
        total = total + gradient.abs()
    found = importance_bertology(model, split(cuts))["self"]
    torch.testing.assert_close(found, total / len(parts), **ROUNDING)


def test_each_call_starts_from_nothing(model, split):
    first, second = (importance_bertology(model, split([3]))["self"] for _ in range(2))
    assert torch.equal(first, second)
