"""Page 06."""

import dataclasses

import pytest

from headprune_lib.heads import KINDS
from headprune_lib.replication.pages import numbers


def test_numbers_are_points_of_the_curves(result):
    figure4 = result("figure4")
    found, curves = numbers.attention_types(figure4), figure4.values["curves"]
    assert found["uncut"] == curves["dec-dec importance"]["mean"][0]
    assert found["enc_dec_80"] == curves["enc-dec importance"]["mean"][8]
    assert found["enc_enc_none"] == curves["enc-enc importance"]["mean"][10]


def test_gaps_are_differences_between_the_curves(result):
    figure4 = result("figure4")
    found, curves = numbers.attention_types(figure4), figure4.values["curves"]
    ours, other = (curves[f"{kind} importance"]["mean"] for kind in ("enc-dec", "dec-dec"))
    for step in (4, 6):
        shown = found[f"gap_dec_{10 * step}"].partition(" [")[0].replace("−", "-")
        assert float(shown) == pytest.approx(ours[step] - other[step], abs=0.006)


def test_areas_are_told_in_points_of_what_is_kept(result):
    figure4 = result("figure4")
    areas = {
        "enc-enc": {"difference": -0.225, "interval": [-0.3, -0.1]},
        "dec-dec": {"difference": 0.075, "interval": [-0.01, 0.2]},
    }
    kept = {f"{kind} importance": {"kept": [1 - step / 20 for step in range(11)]} for kind in KINDS}
    kept["enc-dec importance"]["kept"][8] = 0.123
    values = {**figure4.values, "kept": kept, "areas": areas}
    found = numbers.attention_types(dataclasses.replace(figure4, values=values))
    assert found["area_enc_enc"] == "−22.50 [−30.00, −10.00]"
    assert found["area_dec_dec"] == "+7.50 [−1.00, +20.00]"
    assert (found["enc_dec_kept_80"], found["dec_dec_kept_80"]) == ("12%", "60%")


def test_a_model_that_translates_nothing_keeps_nothing(result):
    figure4 = result("figure4")
    nothing = {"difference": None, "interval": [None, None]}
    values = {
        **figure4.values,
        "kept": {f"{kind} importance": {"kept": [None] * 11} for kind in KINDS},
        "areas": {"enc-enc": nothing, "dec-dec": nothing},
    }
    found = numbers.attention_types(dataclasses.replace(figure4, values=values))
    assert found["area_enc_enc"] == found["enc_dec_kept_80"] == "not above chance"
