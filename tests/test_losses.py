"""One loss per example."""

from types import SimpleNamespace

import torch

from headprune_lib.losses import cross_entropy, next_token_cross_entropy


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
