"""Eq. 2 against real gates, one example at a time, however the examples are batched."""

import pytest
import torch
from gates import ROUNDING, of_examples
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import batch_for, build

from headprune_lib import score_heads
from headprune_lib.criteria.importance import example_importance, importance


@settings(max_examples=12, deadline=None)
@given(cuts=st.sets(st.integers(1, 5)))
def test_it_is_the_mean_of_absolute_derivatives_at_any_batch_size(model, split, derivatives, cuts):
    found = importance(model, split(cuts))["self"]
    torch.testing.assert_close(found, derivatives.abs().mean(0), **ROUNDING)


@pytest.mark.parametrize("name", ["bart", "t5"])
def test_the_three_kinds_of_an_encoder_decoder(name):
    own, inputs = build(name), batch_for(name)
    expected = of_examples(own, [inputs])
    found, each = importance(own, [inputs]), example_importance(own, [inputs])
    assert set(found) == set(expected) == {"enc-enc", "enc-dec", "dec-dec"}
    for kind, values in expected.items():
        torch.testing.assert_close(each[kind], values.abs(), **ROUNDING)
        torch.testing.assert_close(found[kind], values.abs().mean(0), **ROUNDING)


def test_every_example_has_its_own(model, split, derivatives):
    torch.testing.assert_close(
        example_importance(model, split([2]))["self"], derivatives.abs(), **ROUNDING
    )
    with pytest.raises(ValueError, match="no batches"):
        example_importance(model, [])


def test_by_name_it_is_normalised(model, split, derivatives):
    plain = derivatives.abs().mean(0)
    torch.testing.assert_close(
        score_heads(model, split([]))["self"], plain / plain.square().sum(1, keepdim=True).sqrt()
    )
