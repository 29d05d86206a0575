"""The derivative of the logits' norm, one example at a time."""

import pytest
import torch
from gates import rows_of

from headprune_lib import masked_heads, score_heads
from headprune_lib.criteria.gradient import logits_norm
from headprune_lib.heads import full_mask


def by_differences(model, batch, kind, layer, head, norm):
    """Mean over examples of the norm's absolute derivative, by central differences."""
    step, found = 2.0**-10, []
    for row in rows_of(batch):
        inputs, ends = {k: v for k, v in row.items() if k != "labels"}, []
        for gate in (1 + step, 1 - step):
            mask = full_mask(model)
            mask[kind][layer, head] = gate
            with masked_heads(model, mask), torch.no_grad():
                ends.append(norm(model(**inputs).logits[0], row["labels"][0]))
        found.append(abs(ends[0] - ends[1]) / (2 * step))
    return torch.stack(found).mean().double()


def test_it_is_the_derivative_of_the_norm(model, split, examples):
    expected = by_differences(model, examples, "self", 1, 2, lambda logits, _: logits.norm())
    for cuts in ([], [2, 3]):
        found = score_heads(model, split(cuts), "logits-norm")["self"]
        torch.testing.assert_close(found[1, 2], expected, rtol=1e-5, atol=1e-8)


def test_labels_are_not_needed_and_a_loss_is_refused(model, examples):
    unlabelled = {name: value for name, value in examples.items() if name != "labels"}
    torch.testing.assert_close(
        logits_norm(model, [unlabelled])["self"], logits_norm(model, [examples])["self"]
    )
    with pytest.raises(ValueError, match="uses no loss: leave it out"):
        score_heads(model, [examples], "logits-norm", loss=lambda outputs, batch: None)
