"""The mean of derivatives, with their sign turned."""

import torch
from gates import ROUNDING
from hypothesis import given, settings
from hypothesis import strategies as st

from headprune_lib import cut_heads, masked_heads, score_heads
from headprune_lib.criteria.importance_signed import importance_signed


@settings(max_examples=8, deadline=None)
@given(cuts=st.sets(st.integers(1, 5)))
def test_it_is_minus_the_mean_at_any_batch_size(model, split, derivatives, cuts):
    found = importance_signed(model, split(cuts))["self"]
    torch.testing.assert_close(found, -derivatives.mean(0), **ROUNDING)


def test_a_gate_that_closes_a_little_adds_so_much(model, examples):
    found = score_heads(model, [examples], "importance-signed")["self"]
    inputs = {name: value for name, value in examples.items() if name != "labels"}

    def loss(gate):
        mask = cut_heads(model, [])
        mask["self"][1, 2] = gate
        with masked_heads(model, mask), torch.no_grad():
            logits = model(**inputs).logits
        return torch.nn.functional.cross_entropy(logits, examples["labels"])

    step = 2.0**-10
    slope = (loss(1 - step) - loss(1 + step)) / (2 * step)
    torch.testing.assert_close(found[1, 2], slope.double(), rtol=1e-5, atol=1e-8)
