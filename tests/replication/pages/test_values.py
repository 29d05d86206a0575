"""Values are read by their meaning, and what was not measured is named."""

import numpy as np
import pytest

from headprune_lib.replication import measurements, stats
from headprune_lib.replication.pages.values import kept_above_chance, prunable_at, step_at


def test_the_share_at_a_tolerance_is_that_of_the_curve(smoke):
    values = measurements.get("figure3b", smoke).values
    for order in ("importance main", "oracle"):
        for tolerance in (0.01, 0.02, 0.05):
            curve = values["curves"][order]["mean"]
            share = stats.prunable_share(values["shares"], curve, values["chance"], tolerance)
            assert prunable_at(values, order, tolerance)["share"] == pytest.approx(float(share))
    assert prunable_at(values) == prunable_at(values, "importance", 0.02)


def test_what_was_not_measured_is_refused_with_what_was():
    values = {"prunable": {"importance": {"2%": {"share": 0.4, "interval": [0.3, 0.5]}}}}
    with pytest.raises(KeyError, match="order 'oracle' was not measured; there are importance"):
        prunable_at(values, "oracle")
    with pytest.raises(KeyError, match="no share at a loss of 7%; there are 2%"):
        prunable_at(values, tolerance=0.07)


def test_the_nearest_step():
    shares = [step / 10 for step in range(11)]
    assert [step_at(shares, removed) for removed in (0, 0.3, 0.58, 1)] == [0, 3, 6, 10]


def test_kept_above_chance_is_1_uncut_and_0_at_chance():
    values = {"curves": {"importance": {"mean": [0.9, 0.7, 0.5, 0.4]}}, "chance": 0.5}
    np.testing.assert_allclose(kept_above_chance(values), [1, 0.5, 0, -0.25])
