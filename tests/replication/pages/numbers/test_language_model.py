"""Page 12."""

import pytest

from headprune_lib.replication.pages import numbers, tables


@pytest.fixture
def shown(result):
    return [result(f"language_{name}") for name in ("curve", "heads", "recovery")]


def test_numbers_are_points_of_the_curves(shown):
    found, (curve, heads, recovery) = numbers.language_model(*shown), shown
    curves = curve.values["curves"]
    assert found["uncut"] == f"{curves['importance']['perplexity'][0]:.1f}"
    assert found["random_30"] == f"{curves['random']['perplexity'][3]:.1f}"
    assert found["plain_50"] == f"{curves['importance unnormalised']['perplexity'][4]:.1f}"
    assert found["single_removable"].endswith(f" of {len(heads.values['heads'])}")
    uncut, cut = recovery.values["recovered"]
    assert found["removed"] == "4"
    assert float(found["tuned_ratio"]) == pytest.approx(cut["tuned"] / uncut["tuned"], abs=0.051)
    assert (found["tuned_0"], found["cut_30"]) == (f"{uncut['tuned']:.1f}", f"{cut['pruned']:.1f}")


def test_another_text_is_told_or_not_measured(shown):
    curve, *_ = shown
    told, nothing = numbers.other_text(curve), numbers.other_text(None)
    assert told.keys() == nothing.keys() and set(nothing.values()) == {"not measured"}
    at_half = curve.values["shares"].index(0.5)
    perplexity = curve.values["curves"]["importance unnormalised"]["perplexity"][at_half]
    assert told["other_plain_50"] == f"{perplexity:,.0f}"


def test_tables_have_a_row_an_order_and_a_row_a_share(shown):
    curve, heads, recovery = shown
    table = tables.perplexity_table({"": curve})
    assert len(table) == len(curve.values["curves"]) and table["order"][0] == "importance, Eq. 2"
    assert tables.recovery_table({"": recovery})["heads removed"].tolist() == ["0 (0%)", "4 (30%)"]
    answers = tables.language_answers({"": curve}, {"": heads})
    assert answers["question"].tolist() == [
        "20% of the heads together, in the paper's order",
        "one head at a time",
    ]
