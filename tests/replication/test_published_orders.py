"""Curves of other laboratories, as their text and files have them."""

import numpy as np
import pytest

from headprune_lib.replication.published import independent_curves
from headprune_lib.replication.published_orders import published_orders


def curve(who, task, order):
    (curve,) = [
        each
        for each in published_orders()
        if (each.who, each.task, each.order) == (who, task, order)
    ]
    return curve


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
