"""Criteria by attention weights, against the model's own, and combinations of two scores."""

import math
import warnings

import pytest
import scipy.stats
import torch
from tiny import batch_for, build, parts_of

from headprune_lib import rank_heads, score_heads
from headprune_lib.criteria import get_criterion
from headprune_lib.criteria.attention import both, confidence, entropy, importance_entropy, ranks
from headprune_lib.criteria.gradient import importance


def by_rows(model, batch, of):
    """Mean over real queries of a statistic of the weights on real keys, (layer, head)."""
    shape = model.config.num_hidden_layers, model.config.num_attention_heads
    sums, queries = torch.zeros(shape, dtype=torch.float64), 0
    for row in parts_of(batch, 1):
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


def test_confidence_leaves_the_end_mark_out_and_says_where_none_is_known(model, examples, split):
    every = by_rows(model, examples, lambda given: float(given.max()))
    with pytest.warns(UserWarning, match=r"Give leave_out=end_ids\(tokenizer\)"):
        torch.testing.assert_close(confidence(model, split([2]))["self"], every)
    end = int(examples["input_ids"][0, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        counted, found = (
            confidence(model, split([]), leave_out=ids)["self"] for ids in ([], [end])
        )
        torch.testing.assert_close(counted, every)
        assert (found <= every + 1e-12).all() and (found < every - 1e-3).any()
        model.config.eos_token_id = end
        try:
            torch.testing.assert_close(confidence(model, split([]))["self"], found)
        finally:
            model.config.eos_token_id = None


@pytest.mark.filterwarnings("ignore:the model's configuration names no end mark")
@pytest.mark.parametrize("by", ["entropy", "confidence", "importance-entropy"])
def test_weights_are_read_under_the_eager_kernel_and_the_models_own_is_put_back(by, examples):
    model = build("bert", "sdpa")
    with pytest.raises(ValueError, match="'sdpa' makes none"):
        get_criterion(by).score(model, [examples])
    found = score_heads(model, [examples], by)["self"]
    assert model.config._attn_implementation == "sdpa"
    torch.testing.assert_close(found, score_heads(build("bert"), [examples], by)["self"])


@pytest.mark.parametrize("values", [[0, 0], [3, 1, 2, 1, 1], [5, 5, 0, 6, 0, 5, 2]])
def test_ranks_are_mean_places(values):
    found = ranks({"self": torch.tensor([values], dtype=torch.float64)})["self"][0]
    expected = (scipy.stats.rankdata(values) - 1) / (len(values) - 1)
    assert found.tolist() == pytest.approx(expected.tolist())


def test_ranks_within_a_kind_and_over_the_model():
    scores = {"a": torch.tensor([[1.0, 2.0]]), "b": torch.tensor([[3.0, 4.0, torch.nan]])}
    within, over = ranks(scores), ranks(scores, "model")
    assert within["a"].tolist() == [[0, 1]] and within["b"][0, :2].tolist() == [0, 1]
    assert over["a"].tolist() == [[0, pytest.approx(1 / 3)]]
    assert over["b"][0, :2].tolist() == [pytest.approx(2 / 3), 1] and over["b"][0, 2].isnan()


def test_its_two_ends_are_the_orders_of_its_parts(model, split):
    batches = split([])
    ends = [importance_entropy(model, batches, alpha=alpha) for alpha in (1.0, 0.0)]
    by_importance = score_heads(model, batches, "importance")
    by_entropy = score_heads(model, batches, "entropy")
    assert rank_heads(ends[0]) == rank_heads(by_importance)
    assert rank_heads(ends[1]) == rank_heads(by_entropy)
    narrow = importance_entropy(model, batches, alpha=0.0, low=True)
    assert rank_heads(narrow) == rank_heads(by_entropy)[::-1]
    half = score_heads(model, batches, "importance-entropy")["self"]
    torch.testing.assert_close(half, (ends[0]["self"] + ends[1]["self"]) / 2)


@pytest.mark.parametrize("name", ["bert", "bart"])
def test_products_are_made_of_one_pass_as_of_two(name):
    own, batches = build(name), [batch_for(name), batch_for(name, seed=3)]
    important, wide = importance(own, batches), entropy(own, batches)
    torch.testing.assert_close(both(own, batches), (important, wide))
    focused = {kind: 1 - values for kind, values in wide.items()}
    for by, factor in (("importance-times-entropy", wide), ("importance-times-focus", focused)):
        expected = {kind: important[kind] * factor[kind] for kind in important}
        torch.testing.assert_close(score_heads(own, batches, by, normalize=None), expected)
