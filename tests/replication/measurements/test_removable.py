"""What is said of the share of heads that is removable, and of what a curve keeps."""

import numpy as np
import pytest

from headprune_lib.replication.measurements import accuracy
from headprune_lib.replication.measurements.curves import Curves
from headprune_lib.replication.measurements.removable import Draws, removable_record


def _sweep(lost, n=2000, uncut=0.8):
    """Raw outcomes of cuts that make so many right answers wrong."""
    right = np.arange(n) < uncut * n
    correct = np.array([right & (np.arange(n) >= many) for many in lost])
    return {"correct": correct, "correct_uncut": right}


def _record(raw, draws):
    change = (raw["correct"].mean(1) - raw["correct_uncut"].mean()).astype(float)
    error = np.sqrt((raw["correct"] != raw["correct_uncut"]).mean(1) / raw["correct"].shape[1])
    drawn = accuracy.resampled(raw, draws.resamples, draws.seed)
    return removable_record(
        change, change - 1.96 * error, change + 1.96 * error, drawn, 0.01, draws
    )


def test_resampled_changes_are_those_of_drawn_examples():
    raw = _sweep([0, 30, 60], n=300)
    drawn = accuracy.resampled(raw, 500, 0)
    change = raw["correct"].mean(1) - raw["correct_uncut"].mean()
    assert drawn.shape == (500, 3)
    assert drawn.mean(0) == pytest.approx(change, abs=0.004)
    spread = (raw["correct"].astype(float) - raw["correct_uncut"]).std(1) / np.sqrt(300)
    assert drawn.std(0) == pytest.approx(spread, rel=0.1, abs=1e-9)


def test_needed_heads_and_the_interval_of_the_rest():
    record = _record(_sweep([0, 0, 2, 4, 100, 200, 20, 20]), Draws(resamples=500, worlds=50))
    assert record["needed"] == 2
    low, high = record["removable_interval"]
    assert 0.3 <= low <= 0.5 <= high <= 0.75  # two more are at the bound


def test_power_needs_examples():
    lost = np.zeros(12, int)
    many, few = (
        _record(_sweep(lost + round(n * 0.004), n=n), Draws(resamples=300, worlds=60))
        for n in (8000, 250)
    )
    assert many["power"] > 0.9 and few["power"] < 0.5
    assert many["detectable"] < few["detectable"]


def test_what_is_kept_is_a_share_of_what_is_above_chance():
    curves = Curves(np.array([0.0, 0.5, 1.0]), 0.5, {}, {})
    assert curves.kept(np.array([0.9, 0.7, 0.5])) == pytest.approx([1.0, 0.5, 0.0])
    assert np.isnan(curves.kept(np.array([[0.5, 0.6, 0.5]]))).all()
    assert curves.area(np.array([0.9, 0.7, 0.5]), 0.5) == pytest.approx(0.8)
