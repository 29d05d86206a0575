"""Entropy and confidence of heads, from the model's own weights, an example at a time."""

import math
import warnings

import pytest
import torch
from gates import rows_of
from tiny import build

from headprune_lib import score_heads
from headprune_lib.criteria.attention import confidence, entropy


def by_rows(model, batch, of):
    """(layer, head): mean over real queries of a number of the weights on real keys."""
    shape = model.config.num_hidden_layers, model.config.num_attention_heads
    sums, queries = torch.zeros(shape, dtype=torch.float64), 0
    for row in rows_of(batch):
        inputs = {key: value for key, value in row.items() if key != "labels"}
        real = row["attention_mask"][0].bool()
        queries += int(real.sum())
        with torch.no_grad():
            layers = model(**inputs, output_attentions=True).attentions
        for i, layer in enumerate(layers):
            for j, head in enumerate(layer[0]):
                sums[i, j] += sum(of(query[real]) for query in head[real])
    return sums / queries


def plain(given):
    return -sum(float(x) * math.log(float(x)) for x in given) / math.log(len(given))


@pytest.mark.parametrize("cuts", [[], [1, 4], [1, 2, 3, 4, 5]])
def test_entropy_is_the_mean_over_real_queries_at_any_batch_size(model, examples, split, cuts):
    expected = by_rows(model, examples, plain)
    torch.testing.assert_close(entropy(model, split(cuts))["self"], expected)
    low = score_heads(model, split(cuts), "entropy-low")["self"]
    torch.testing.assert_close(low, 1 - expected)


def test_confidence_leaves_the_end_mark_out(model, examples, split):
    every = by_rows(model, examples, lambda given: float(given.max()))
    torch.testing.assert_close(confidence(model, split([2]))["self"], every)
    end = int(examples["input_ids"][0, 0])
    found = confidence(model, split([]), leave_out=[end])["self"]
    assert (found <= every + 1e-12).all() and (found < every - 1e-3).any()
    model.config.eos_token_id = end
    try:
        torch.testing.assert_close(confidence(model, split([]))["self"], found)
    finally:
        model.config.eos_token_id = None


@pytest.mark.parametrize("by", ["entropy", "entropy-low", "confidence"])
def test_kernels_without_weights_are_refused(by, examples):
    with pytest.raises(ValueError, match="'sdpa' makes none"):
        score_heads(build("bert", "sdpa"), [examples], by)


def test_confidence_says_where_no_end_mark_is_known(model, examples, split):
    assert model.config.eos_token_id is None
    with pytest.warns(UserWarning, match=r"give leave_out=end_ids\(tokenizer\)"):
        found = confidence(model, split([]))["self"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(confidence(model, split([]), leave_out=())["self"], found)
