"""The benchmark runs and its figures are what it says; how fast they are is not tested."""

import pytest

from headprune_lib.bench import bench
from headprune_lib.profiles import load_profile


def test_every_comparison_has_a_ratio_and_a_floor_that_is_not_beaten_by_definition(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path))
    rows = bench(load_profile("smoke"), n_sentences=16, rounds=2)
    assert [row["target"] for row in rows] == [
        "at most 2.0", "", "at most 0.7", "at most 0.6", "at least 6", "at least 1.15", "at least 1.15"]
    for row in rows:
        low, high = row["quartiles"]
        assert 0 < low <= row["ratio"] <= high
    floors = [row["floor"] for row in rows]
    # two layers: backward needs 21 of 24 units; own feed-forward and the layers above
    scoring = 1 + 21 / 24
    assert floors[:4] == pytest.approx([scoring, scoring, scoring / 3, (4 / 3 + 1 + 2 / 8) / 4])
