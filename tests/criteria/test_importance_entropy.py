"""Two scores from one pass, and what is made of them."""

import pytest
import scipy.stats
import torch
from tiny import batch_for, build

from headprune_lib import prune_order, score_heads
from headprune_lib.criteria.attention import both, entropy, importance_entropy, ranks
from headprune_lib.criteria.gradient import importance


def test_one_pass_gives_what_two_give(model, split):
    for name in ("bert", "bart"):
        own, batches = build(name), [batch_for(name), batch_for(name, seed=3)]
        important, wide = both(own, batches)
        for kind in important:
            torch.testing.assert_close(important[kind], importance(own, batches)[kind])
            torch.testing.assert_close(wide[kind], entropy(own, batches)[kind])


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
    by_importance, by_entropy = (
        score_heads(model, batches, by) for by in ("importance", "entropy")
    )
    assert prune_order(ends[0]) == prune_order(by_importance)
    assert prune_order(ends[1]) == prune_order(by_entropy)
    narrow = importance_entropy(model, batches, alpha=0.0, low=True)
    assert prune_order(narrow) == prune_order(by_entropy)[::-1]
    half = score_heads(model, batches, "importance-entropy")["self"]
    torch.testing.assert_close(half, (ends[0]["self"] + ends[1]["self"]) / 2)


def test_products(model, split):
    batches = split([2])
    important, wide = both(model, batches)
    for by, factor in (
        ("importance-times-entropy", wide["self"]),
        ("importance-times-focus", 1 - wide["self"]),
    ):
        plain = score_heads(model, batches, by, normalize=None)["self"]
        torch.testing.assert_close(plain, important["self"] * factor)
