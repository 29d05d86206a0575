"""Curves of other laboratories, as their files have them."""

import numpy as np
import pytest

from headprune_lib.replication.published import independent_curves
from headprune_lib.replication.published_orders import (
    five_seeds,
    published_orders,
    trained_methods,
)


def curve(who, task, order):
    (one,) = [
        one for one in published_orders() if (one.who, one.task, one.order) == (who, task, order)
    ]
    return one


def test_every_curve_starts_whole_and_keeps_its_source():
    every = published_orders()
    assert len({(one.who, one.task, one.order) for one in every}) == len(every) == 14
    for one in every:
        assert one.shares[0] == 0 and one.kept[0] == 1
        assert (np.diff(one.shares) > 0).all() and one.shares[-1] >= 0.5
        assert len(one.shares) == len(one.accuracy)
        assert 0 < one.chance < one.accuracy[0] < 1
        assert "arxiv" in one.source.lower() or "github" in one.source


def test_what_is_kept_is_the_share_above_the_most_frequent_answer():
    one = curve("HIES 2025", "sst2", "importance")
    majority = independent_curves()["figure6a"]["chance"]
    assert one.kept[-1] == pytest.approx((0.8727 - majority) / (0.9243 - majority))


def test_an_area_is_that_of_straight_lines_between_the_points():
    one = curve("HIES 2025", "mnli", "importance")
    kept = (np.array([84.57, 84.04, 82.25, 78.67]) / 100 - one.chance) / (0.8457 - one.chance)
    by_hand = (
        0.1 * (kept[0] + kept[1]) / 2
        + 0.2 * (kept[1] + kept[2]) / 2
        + 0.2 * (kept[2] + kept[3]) / 2
    )
    assert one.area == pytest.approx(by_hand / 0.5, abs=1e-4)


def test_the_papers_figure_measured_again_is_among_them():
    one = curve("Silent-Zebra", "mnli", "importance")
    found = independent_curves()["figure3b"]
    assert one.accuracy[1:].tolist() == found["score"]
    assert one.shares[4] == pytest.approx(28 / 144)


def test_five_seeds_are_differences_in_points():
    assert five_seeds()[-1]["points"] == pytest.approx(78.87 - 79.47)


def test_heads_left_of_trained_gates_are_of_all_kinds():
    (voita,) = trained_methods()
    assert [one["left"] for one in voita["pruned"]] == [
        14 + 31 + 30,
        12 + 21 + 25,
        8 + 13 + 15,
        5 + 9 + 12,
    ]
