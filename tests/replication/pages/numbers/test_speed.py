"""Page 05."""

import pytest

from headprune_lib.replication.pages import numbers


def test_the_largest_batch_and_the_bytes_saved(result):
    table4 = result("table4")
    found = numbers.speed(table4)
    last = table4.values["finetuned"]["speed"][-1]
    assert (found["largest"], found["ratio"]) == (64, last["ratio"])
    before, after = table4.values["shape"]["file"]
    assert found["shape_saved"] == pytest.approx(100 * (before - after) / before)
    assert 0 < found["shape_share"] < 100
