"""Variants of head importance against plain loops, and their errors."""

import pytest
import torch
from tiny import batch, batch_for, build

from headprune_lib import head_importance
from headprune_lib.heads import find_heads
from headprune_lib.scoring import gate_gradients, normalize_l2


@pytest.fixture(scope="module")
def model():
    return build()


@pytest.fixture(scope="module")
def batches():
    return [batch(3, seed=2), batch(2, length=7, seed=3)]


def per_example(model, batches):
    """dL(x)/dxi one example at a time: (layer, head) for each, and the size of its batch."""
    rows = []
    for inputs in batches:
        for i in range(len(inputs["labels"])):
            one = {name: value[i:i + 1] for name, value in inputs.items()}
            rows.append(torch.stack([g.sum(1)[0] for g in gate_gradients(model, one)]))
    return torch.stack(rows).double()


def test_variants_equal_their_definitions(model, batches):
    gradients = per_example(model, batches)
    first, second = gradients[:3].mean(0), gradients[3:].mean(0)
    expected = {
        "example": gradients.abs().mean(0),
        "batch": (first.abs() + second.abs()) / 2,
        "bertology": (first.abs() + (first + second).abs()) / 2,
        "fisher": (first.square() + second.square()) / 2,
    }
    for variant, scores in expected.items():
        found = head_importance(model, batches, normalize=None, variant=variant)["self"]
        torch.testing.assert_close(found, scores, rtol=1e-9, atol=1e-12)
    tokens = sum(int(inputs["attention_mask"].sum()) for inputs in batches)
    by_token = sum(torch.stack([g.abs().sum((0, 1)) for g in gate_gradients(model, inputs)])
                   for inputs in batches)
    found = head_importance(model, batches, normalize=None, variant="token")["self"]
    torch.testing.assert_close(found, by_token.double() / tokens)


def test_tokens_of_a_decoder_are_its_own():
    model, inputs = build("bart"), batch_for("bart")
    source = int(inputs["attention_mask"].sum())
    target = int((inputs["labels"] != -100).sum())
    assert source != target
    found = head_importance(model, [inputs], normalize=None, variant="token")
    for block, gradient in zip(find_heads(model), gate_gradients(model, inputs), strict=True):
        tokens = source if block.kind == "enc-enc" else target
        torch.testing.assert_close(found[block.kind][block.layer],
                                   gradient.abs().sum((0, 1)).double() / tokens)


def test_l2_normalisation_is_per_layer(model, batches):
    raw = head_importance(model, batches, normalize=None)
    normal = head_importance(model, batches)["self"]
    torch.testing.assert_close(normal.norm(dim=1), torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(normalize_l2(raw)["self"], normal)
    assert not normalize_l2({"self": torch.zeros(2, 3)})["self"].any()


def test_a_loss_of_ones_own(model, batches):
    doubled = head_importance(
        model, batches, normalize=None,
        loss=lambda out, b: 2 * torch.nn.functional.cross_entropy(
            out.logits, b["labels"], reduction="none"))
    plain = head_importance(model, batches, normalize=None)
    torch.testing.assert_close(doubled["self"], 2 * plain["self"])


def test_padding_has_no_gradient(model, batches):
    for inputs in batches:
        padding = inputs["attention_mask"] == 0
        for block, gradient in zip(find_heads(model), gate_gradients(model, inputs), strict=True):
            if block.layer < 2:
                continue
            assert gradient[padding].abs().max() == 0


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
    with pytest.raises(ValueError, match="unknown variant 'tokens'"):
        head_importance(model, batches, variant="tokens")
    with pytest.raises(ValueError, match="unknown normalisation 'l1'"):
        head_importance(model, batches, normalize="l1")
    with pytest.raises(ValueError, match="label 3 is outside the model's 3 classes"):
        head_importance(model, [{**batches[0], "labels": torch.tensor([0, 3, 1])}])
    with pytest.raises(ValueError, match="no 'labels'"):
        head_importance(model, [{k: v for k, v in batches[0].items() if k != "labels"}])
