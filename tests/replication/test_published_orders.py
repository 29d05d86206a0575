"""Values of the paper and curves of other laboratories, as their text and files have them."""

import numpy as np
import pytest

from headprune_lib.replication.published import (
    independent_curves,
    paper,
    published_share,
    published_shares,
    published_task,
)
from headprune_lib.replication.published_orders import (
    five_seeds,
    published_orders,
    trained_methods,
)


def curve(who, task, order):
    (curve,) = [
        each
        for each in published_orders()
        if (each.who, each.task, each.order) == (who, task, order)
    ]
    return curve


def test_shares_are_those_of_figures_3_and_6():
    expected = {"mnli": 0.4, "wmt": 0.2, "sst2": 0.6, "cola": 0.5, "mrpc": 0.5, "iwslt": 0.2}
    assert published_shares() == expected
    assert published_share("snli") == paper("figure3")["bert_mnli"]
    assert (published_share("enfr"), published_share("deen")) == (0.2, 0.2)
    assert published_share("reviews") is None
    assert {published_task(task) for task in ("snli", "enfr", "deen")} <= set(expected)


def test_every_curve_starts_whole_and_keeps_its_source():
    curves = published_orders()
    assert len({(each.who, each.task, each.order) for each in curves}) == len(curves) == 14
    for each in curves:
        assert each.shares[0] == 0 and each.kept[0] == 1
        assert (np.diff(each.shares) > 0).all() and each.shares[-1] >= 0.5
        assert 0 < each.chance < each.accuracy[0] < 1
        assert "arxiv" in each.source.lower() or "github" in each.source


def test_what_is_kept_is_above_the_most_frequent_answer_and_an_area_is_of_straight_lines():
    curves = independent_curves()
    sst2, chance = curve("HIES 2025", "sst2", "importance"), curves["figure6a"]["chance"]
    assert sst2.kept[-1] == pytest.approx((0.8727 - chance) / (0.9243 - chance))
    mnli = curve("HIES 2025", "mnli", "importance")
    kept = (np.array([84.57, 84.04, 82.25, 78.67]) / 100 - mnli.chance) / (0.8457 - mnli.chance)
    by_hand = 0.1 * sum(kept[:2]) / 2 + 0.2 * sum(kept[1:3]) / 2 + 0.2 * sum(kept[2:]) / 2
    assert mnli.area == pytest.approx(by_hand / 0.5, abs=1e-4)
    again = curve("Silent-Zebra", "mnli", "importance")  # the paper's figure measured again
    assert again.accuracy[1:].tolist() == curves["figure3b"]["score"]
    assert again.shares[4] == pytest.approx(28 / 144)


def test_differences_are_in_points_and_heads_left_of_trained_gates_of_all_kinds():
    assert five_seeds()[-1]["points"] == pytest.approx(78.87 - 79.47)
    (voita,) = trained_methods()
    assert [each["left"] for each in voita["pruned"]] == [75, 58, 36, 26]
