"""Scores by name, their normalisation, and the variants of importance."""

import pytest
import torch
from tiny import batch, build

from headprune_lib import head_importance, score_heads
from headprune_lib.scoring import normalize_l2

BATCHES = [batch(3, seed=2), batch(2, length=7, seed=3)]


@pytest.mark.parametrize(
    ("variant", "name"),
    [
        ("example", "importance"),
        ("token", "importance-token"),
        ("batch", "importance-batch"),
        ("bertology", "importance-bertology"),
        ("fisher", "fisher"),
    ],
)
def test_a_variant_is_a_criterion(variant, name):
    for normalize in ("l2", None):
        found = head_importance(build(), BATCHES, variant=variant, normalize=normalize)["self"]
        expected = score_heads(build(), BATCHES, name, normalize=normalize)["self"]
        assert torch.equal(found, expected)


def test_importance_is_normalised_by_layer_and_a_layer_of_zeros_stays_zero():
    plain = score_heads(build(), BATCHES, normalize=None)["self"]
    expected = plain / plain.square().sum(1, keepdim=True).sqrt()
    torch.testing.assert_close(score_heads(build(), BATCHES)["self"], expected)
    assert not normalize_l2({"self": torch.zeros(2, 3)})["self"].any()


def test_names_that_are_not_known():
    with pytest.raises(ValueError, match="unknown variant 'tokens': did you mean token"):
        head_importance(build(), BATCHES, variant="tokens")
    for normalize in ("l1", "own"):
        with pytest.raises(ValueError, match=f"unknown normalisation '{normalize}'"):
            head_importance(build(), BATCHES, normalize=normalize)
    with pytest.raises(ValueError, match="unknown normalisation 'l1'"):
        score_heads(build(), BATCHES, normalize="l1")


def test_scores_of_an_infinite_loss_are_refused_and_not_taken_for_removed_heads():
    model = build()
    with pytest.raises(ValueError, match="is NaN, which marks a head that was removed"):
        score_heads(
            model,
            [batch(3)],
            loss=lambda outputs, _batch: (outputs.logits - 1e308 * 10).exp().log().sum(-1),
        )
