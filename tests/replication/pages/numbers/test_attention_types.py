"""Page 06."""

import pytest

from headprune_lib.replication.pages import numbers


def test_numbers_are_points_of_the_curves(result):
    figure4 = result("figure4")
    found, curves = numbers.attention_types(figure4), figure4.values["curves"]
    assert found["uncut"] == curves["dec-dec importance"]["mean"][0]
    assert found["dec_dec_60"] == curves["dec-dec importance"]["mean"][6]
    assert found["enc_dec_80"] == curves["enc-dec importance"]["mean"][8]
    assert found["enc_enc_none"] == curves["enc-enc importance"]["mean"][10]


def test_gaps_are_differences_between_the_curves(result):
    figure4 = result("figure4")
    found, curves = numbers.attention_types(figure4), figure4.values["curves"]
    for other, step in (("enc-enc", 4), ("enc-enc", 6), ("dec-dec", 4), ("dec-dec", 8)):
        gap = (
            curves["enc-dec importance"]["mean"][step] - curves[f"{other} importance"]["mean"][step]
        )
        assert found[f"gap_{other[:3]}_{10 * step}"] == pytest.approx(gap, abs=1e-3)
    assert found["gap_dec_60_low"] <= found["gap_dec_60"] <= found["gap_dec_60_high"]
    assert "gap_dec_80_low" not in found  # the page tells no interval there
