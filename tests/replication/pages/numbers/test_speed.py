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


def test_small_batches_are_told_where_they_were_timed(result):
    table4 = result("table4")
    rows = {row["batch_size"]: row for row in table4.values["finetuned"]["speed"]}
    for size in (1, 4):
        shown = numbers.speed(table4)[f"ratio_{size}"]
        assert shown.startswith(f"{rows[size]['ratio']:.2f} [" if size in rows else "not measured")


def test_precision_is_told_in_percent(result):
    found = result("precision")
    told = numbers.precision(found)
    assert told["first_half"] == pytest.approx(100 * found.values["first_half"])
    assert told["rank"].startswith(f"{found.values['spearman']:.2f} [")
