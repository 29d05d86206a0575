"""The integral over the gates, against differences and against the loss at its two ends."""

import pytest
import torch
from gates import ROUNDING, rows_of

from headprune_lib import masked_heads
from headprune_lib.criteria.gradient import importance_integrated
from headprune_lib.heads import full_mask


def loss_at(model, row, gate, of=None, step=0.0):
    mask = {"self": torch.full_like(full_mask(model)["self"], gate)}
    if of is not None:
        mask["self"][of] += step
    inputs = {name: value for name, value in row.items() if name != "labels"}
    with masked_heads(model, mask), torch.no_grad():
        return torch.nn.functional.cross_entropy(model(**inputs).logits, row["labels"]).double()


def test_it_is_the_mean_of_absolute_integrals(model, examples):
    steps, small, head = 3, 2.0**-10, (1, 2)
    integrals = [
        sum(
            (
                loss_at(model, row, (i + 0.5) / steps, head, small)
                - loss_at(model, row, (i + 0.5) / steps, head, -small)
            )
            / (2 * small)
            for i in range(steps)
        )
        / steps
        for row in rows_of(examples)
    ]
    found = importance_integrated(model, [examples], steps=steps)["self"][head]
    expected = torch.stack(integrals).abs().mean()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)


def test_batches_do_not_matter_and_bad_settings_are_named(model, split):
    one, several = (importance_integrated(model, split(cuts), steps=2) for cuts in ([], [1, 4]))
    torch.testing.assert_close(one["self"], several["self"], **ROUNDING)
    with pytest.raises(ValueError, match="steps is 0"):
        importance_integrated(model, split([]), steps=0)
