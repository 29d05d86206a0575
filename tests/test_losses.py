"""One loss per example."""

from types import SimpleNamespace

import pytest
import torch
import transformers as t
from tiny import MARKS, WIDE, batch_for, build, of

from headprune_lib.losses import cross_entropy, default_loss, n_labels, next_token_cross_entropy

# What a class cannot be told from: its name, `can_generate`, or `problem_type` alone.
XLM = of(t.XLMWithLMHeadModel, **MARKS, n_words=30, emb_dim=16, n_layers=2, n_heads=4, dropout=0)
VIDEO = of(
    t.VideoMAEForVideoClassification, **WIDE, image_size=8, patch_size=4, num_frames=2,
    tubelet_size=2, num_labels=3,
)  # fmt: skip
LABELS = torch.tensor([[1, -100, 4, 7], [5, 3, -100, 9]])
TEXT = {"input_ids": torch.tensor([[5, 6, 7, 8], [9, 5, 6, 7]]), "labels": LABELS}
CLIP = {"pixel_values": torch.randn(2, 2, 3, 8, 8)}


def test_of_tokens_it_is_the_sum_over_those_with_a_label():
    logits = torch.randn(3, 3, 5, dtype=torch.float64)
    labels = torch.tensor([[1, -100, 4], [0, 3, -100], [-100, -100, -100]])
    zero = logits.new_zeros(())  # of an example without a label
    log_p, outputs = logits.log_softmax(-1), SimpleNamespace(logits=logits)
    torch.testing.assert_close(
        cross_entropy(outputs, {"labels": labels}),
        -torch.stack([log_p[0, 0, 1] + log_p[0, 2, 4], log_p[1, 0, 0] + log_p[1, 1, 3], zero]),
    )
    # the first position predicts the second label, the last one none
    torch.testing.assert_close(
        next_token_cross_entropy(outputs, {"labels": labels}),
        -torch.stack([log_p[0, 1, 4], log_p[1, 0, 3], zero]),
    )


def test_of_many_words_in_float32_it_is_as_exact_as_float32_allows():
    logits = 4 * torch.randn(2, 128, 4000, dtype=torch.float64, generator=torch.Generator())
    labels = torch.randint(0, 4000, (2, 128), generator=torch.Generator())
    exact = cross_entropy(SimpleNamespace(logits=logits), {"labels": labels})
    found = cross_entropy(SimpleNamespace(logits=logits.float()), {"labels": labels})
    torch.testing.assert_close(found.double(), exact, rtol=1.2e-7, atol=0)


@pytest.mark.parametrize(
    ("model", "batch"),
    [
        (XLM(), TEXT),  # generates, and is a masked language model all the same
        (XLM(causal=True), None),
        (t.GPT2LMHeadModel(t.GPT2Config(**MARKS, n_positions=9, n_embd=16, n_head=4)), TEXT),
        (VIDEO(), CLIP | {"labels": torch.tensor([0, 2])}),
        (VIDEO(problem_type="multi_label_classification"), CLIP | {"labels": torch.eye(3)[:2]}),
        (build("bart"), batch_for("bart")),
    ],
)
def test_it_is_the_loss_that_the_class_itself_is_trained_with(model, batch):
    """For causal XLM, whose class does not shift labels, next tokens all the same."""
    loss = default_loss(model.eval())
    if batch is None:
        assert loss is next_token_cross_entropy
        return
    with torch.no_grad():
        outputs = model(**batch)
    mean = loss(outputs, batch).sum() / n_labels(loss, batch)
    torch.testing.assert_close(mean, outputs.loss, rtol=1e-5, atol=0)
