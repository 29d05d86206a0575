"""Squared derivatives of batches, from each example's own."""

import torch
from gates import ROUNDING
from hypothesis import given, settings
from hypothesis import strategies as st

from headprune_lib import score_heads
from headprune_lib.criteria.fisher import fisher


@settings(max_examples=8, deadline=None)
@given(cuts=st.sets(st.integers(1, 5)))
def test_the_batchs_derivative_is_squared(model, split, derivatives, cuts):
    parts = derivatives.tensor_split(sorted(cuts))
    expected = sum(part.mean(0) ** 2 for part in parts) / len(parts)
    torch.testing.assert_close(fisher(model, split(cuts))["self"], expected, **ROUNDING)


def test_one_example_a_batch_is_the_empirical_fisher_information(model, split, derivatives):
    found = score_heads(model, split(range(1, 6)), "fisher")["self"]
    torch.testing.assert_close(found, (derivatives**2).mean(0), **ROUNDING)
