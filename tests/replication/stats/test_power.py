"""Power is what repeated draws give."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from headprune_lib.replication import stats


@pytest.mark.parametrize(("true", "bound", "error"), [(1.0, 0.95, 0.02), (0.0, -0.01, 0.004)])
def test_power_of_an_interval_is_how_often_it_lies_above(true, bound, error, drawn_seed):
    seen = np.random.default_rng(drawn_seed).normal(true, error, 40_000)
    found = (seen - 1.96 * error > bound).mean()
    assert stats.power_above(true, bound, error) == pytest.approx(found, abs=0.015)


@pytest.mark.parametrize("runs", [3, 5])
def test_power_of_a_t_interval_is_how_often_it_lies_above(runs, drawn_seed):
    draws = np.random.default_rng(drawn_seed).normal(0.2, 0.1, (20_000, runs))
    low = scipy_stats.ttest_1samp(draws, 0.0, axis=1).confidence_interval(0.95).low
    found = stats.power_above(0.2, 0.05, 0.1 / np.sqrt(runs), runs - 1)
    assert found == pytest.approx((low > 0.05).mean(), abs=0.015)


def test_what_is_detectable_is_found_four_times_in_five():
    error = stats.standard_error([-0.02, 0.03])
    assert error == pytest.approx(0.05 / 3.92, rel=1e-3)
    assert stats.power_above(stats.detectable(error), 0.0, error) == pytest.approx(0.8, abs=1e-6)


def test_all_of_is_a_lower_bound():
    assert stats.all_of([0.9, 0.95]) == pytest.approx(0.85)
    assert stats.all_of([0.3, 0.4]) == 0.0


def _sweep(seed, cuts=20, error=0.003):
    rng = np.random.default_rng(seed)
    change = np.zeros(cuts)
    drawn = rng.normal(0, error, (500, cuts))
    return change, change - 1.96 * error, drawn


def test_the_interval_of_a_share_is_that_of_moved_intervals(drawn_seed):
    change, low, drawn = _sweep(drawn_seed, error=0.006)
    share, ends = stats.share_above(change, low, drawn, -0.01)
    assert share == 0.0  # -0.01176 is below the bound
    plain = [np.mean([low[i] + row[i] > -0.01 for i in range(len(low))]) for row in drawn]
    assert ends == pytest.approx(np.quantile(plain, [0.025, 0.975]))


def test_the_power_of_a_share_falls_with_the_noise(drawn_seed):
    rule = {"bound": -0.01, "spared": 18, "least": 0.8, "least_low": 0.7, "worlds": 100}
    powers = [
        stats.power_of_share(*_sweep(drawn_seed, error=error), **rule)
        for error in (0.001, 0.004, 0.01)
    ]
    assert powers[0] == 1.0 and powers[2] == 0.0 and powers[0] >= powers[1] >= powers[2]
    # fewer cuts that truly cost nothing than the rule asks for
    assert stats.power_of_share(*_sweep(drawn_seed, error=0.001), **{**rule, "spared": 15}) == 0.0


def test_leaving_one_head_out_is_a_plain_loop(drawn_seed):
    x, y = np.random.default_rng(drawn_seed).normal(size=(2, 9)).round(1)
    plain = [
        scipy_stats.spearmanr(np.delete(x, i), np.delete(y, i)).statistic for i in range(len(x))
    ]
    assert stats.spearman_without_one(x, y) == pytest.approx((min(plain), max(plain)))
    with pytest.raises(ValueError, match="at least 3"):
        stats.spearman_without_one([1, 2], [3, 4])
