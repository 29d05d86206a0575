"""The absolute derivative of a batch's mean loss, from each example's own."""

import torch
from gates import ROUNDING
from hypothesis import given, settings
from hypothesis import strategies as st

from headprune_lib.criteria.importance_batch import importance_batch


@settings(max_examples=8, deadline=None)
@given(cuts=st.sets(st.integers(1, 5)))
def test_derivatives_of_a_batch_cancel(model, split, derivatives, cuts):
    parts = derivatives.tensor_split(sorted(cuts))
    expected = sum(part.mean(0).abs() for part in parts) / len(parts)
    torch.testing.assert_close(importance_batch(model, split(cuts))["self"], expected, **ROUNDING)
