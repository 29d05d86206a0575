"""Page 05."""

import pytest

from headprune_lib.replication.pages import numbers


def test_the_bytes_saved(result):
    table4 = result("table4")
    found = numbers.speed(table4)
    before, after = table4.values["shape"]["file"]
    assert found["shape_saved"] == pytest.approx(100 * (before - after) / before)
    assert 0 < found["shape_share"] < 100


def test_small_batches_are_told_where_they_were_timed(result):
    table4 = result("table4")
    of = {"ratio": "finetuned", "shape_ratio": "shape"}
    told = [(name, size) for name in of for size in (1, 4, 16, 64) if name == "ratio" or size > 4]
    for name, size in told:
        rows = {row["batch_size"]: row for row in table4.values[of[name]]["speed"]}
        shown = numbers.speed(table4)[f"{name}_{size}"]
        assert shown.startswith(f"{rows[size]['ratio']:.2f} [" if size in rows else "not measured")


def test_precision_is_told_in_percent(result):
    found = result("precision")
    told = numbers.precision(found)
    assert told["first_half"] == pytest.approx(100 * found.values["first_half"])
    assert told["rank"].startswith(f"{found.values['spearman']:.2f} [")
