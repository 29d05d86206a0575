"""Scores by name, their normalisation, and the variants of importance."""

import pytest
import torch
from tiny import batch, build

from headprune_lib import head_importance, score_heads
from headprune_lib.scoring import normalize_l2


@pytest.fixture(scope="module")
def model():
    return build()


@pytest.fixture(scope="module")
def batches():
    return [batch(3, seed=2), batch(2, length=7, seed=3)]


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
@pytest.mark.parametrize("normalize", ["l2", None])
def test_a_variant_is_a_criterion(model, batches, variant, name, normalize):
    found = head_importance(model, batches, variant=variant, normalize=normalize)["self"]
    assert torch.equal(found, score_heads(model, batches, name, normalize=normalize)["self"])


def test_l2_normalisation_is_per_layer(model, batches):
    raw = head_importance(model, batches, normalize=None)
    normal = head_importance(model, batches)["self"]
    torch.testing.assert_close(normal.norm(dim=1), torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(normalize_l2(raw)["self"], normal)
    assert not normalize_l2({"self": torch.zeros(2, 3)})["self"].any()


def test_a_loss_of_ones_own(model, batches):
    doubled = head_importance(
        model,
        batches,
        normalize=None,
        loss=lambda out, b: (
            2 * torch.nn.functional.cross_entropy(out.logits, b["labels"], reduction="none")
        ),
    )
    plain = head_importance(model, batches, normalize=None)
    torch.testing.assert_close(doubled["self"], 2 * plain["self"])


def test_the_model_is_left_as_it_was(model, batches):
    model.train()
    model.classifier.weight.requires_grad_(False)
    head_importance(model, batches)
    assert model.training and not model.classifier.weight.requires_grad
    assert model.classifier.bias.requires_grad and model.classifier.bias.grad is None
    model.eval()
    model.classifier.weight.requires_grad_(True)


def test_errors(model, batches):
    with pytest.raises(ValueError, match="no batches"):
        head_importance(model, [])
    with pytest.raises(ValueError, match="unknown variant 'tokens': did you mean token"):
        head_importance(model, batches, variant="tokens")
    for normalize in ("l1", "own"):
        with pytest.raises(ValueError, match=f"unknown normalisation '{normalize}'"):
            head_importance(model, batches, normalize=normalize)
    with pytest.raises(ValueError, match="unknown normalisation 'l1'"):
        score_heads(model, batches, normalize="l1")


def test_scores_of_an_infinite_loss_are_refused_and_not_taken_for_removed_heads():
    model = build()
    with pytest.raises(ValueError, match="is NaN, which marks a head that was removed"):
        score_heads(
            model,
            [batch(3)],
            loss=lambda outputs, _batch: (outputs.logits - 1e308 * 10).exp().log().sum(-1),
        )
