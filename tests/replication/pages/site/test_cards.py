"""A card says what its verdict says, row by row."""

from dataclasses import replace

import goldens
import pytest
from bs4 import BeautifulSoup

from headprune_lib.replication.claims.rules import CLAIMS
from headprune_lib.replication.claims.verdict import Estimate, Judged, Row, Verdict
from headprune_lib.replication.pages.site.cards import card_html


def row(setting, power, word="replicates"):
    judged = Judged(
        word, True, "Half is <kept>.", power, estimates=(Estimate(0.5, (0.25, 0.75), 0.8),)
    )
    return Row("C1", "encoder", "figure1b", setting, judged, model="tiny")


def card(*rows):
    made = card_html(CLAIMS["C1"], Verdict(rows))
    return BeautifulSoup(made, "html.parser")


def percent(element, name="left"):
    rules = dict(rule.split(":") for rule in element["style"].split(";"))
    return float(rules[name].strip("%"))


def test_a_dot_lies_within_its_interval_and_the_bound_where_the_rule_has_it():
    shown = card(row("tiny, toy", 0.9))
    bar, dot, bound = (shown.select_one(f".track .{name}") for name in ("bar", "dot", "bound"))
    # from 0.25 to 0.8, with a twentieth of that at both ends
    assert percent(bound) - percent(bar) == pytest.approx(100 * 0.55 / 0.605, abs=0.2)
    assert percent(dot) - percent(bar) == pytest.approx(percent(bar, "width") / 2, abs=0.2)
    assert shown.select_one(".value").text == "50% [25%, 75%]"


def test_what_does_not_count_is_hollow_and_says_why():
    shown = card(row("tiny, toy", 0.9), row("tiny, far", 0.1))
    assert [line["class"] for line in shown.select(".dots li:not(.axis)")] == [
        ["counts"],
        ["not-counted"],
    ]
    counts = [cells.select("td")[-1].text for cells in shown.select("tbody tr")]
    assert counts == ["yes", "no: power 0.10"]


def test_a_bound_of_each_kind_of_model_is_named():
    encoder = row("tiny, toy", 0.9)
    (one,) = encoder.judged.estimates
    judged = replace(encoder.judged, estimates=(replace(one, bound=0.4),))
    shown = card(encoder, replace(encoder, half="translation", judged=judged))
    assert "Our bound is 80% for encoders and 40% for translators;" in shown.figcaption.text


def test_a_result_that_differs_with_its_dot_on_the_papers_side_is_marked():
    below = row("tiny, far", 0.9, "differs")
    (estimate,) = below.judged.estimates
    judged = replace(below.judged, estimates=(replace(estimate, bound=0.1),))
    shown = card(below, replace(below, setting="tiny, toy", judged=judged))
    names = [name.text for name in shown.select(".name")]
    assert names == ["tiny, far", "tiny, toy: differs"]
    assert "by another part of the rule" in shown.figcaption.text
    assert "another part" not in card(below).figcaption.text


def test_text_is_escaped_and_every_row_has_a_link_of_its_own():
    shown = card(row("tiny, toy", 0.9), row("tiny, far", 0.9))
    assert "Half is <kept>." in shown.tbody.text
    for line, one in zip(shown.select("tbody tr"), ("toy", "far"), strict=True):
        assert line["id"] == f"c1-figure1b-tiny-{one}"
        assert line.a["href"] == f"#{line['id']}"


def test_the_stored_rows_have_anchors_that_differ():
    cards = BeautifulSoup("\n".join(goldens.read("cards").values()), "html.parser")
    anchors = [line["id"] for line in cards.select("tbody tr")]
    assert len(anchors) == len(set(anchors)) > 20
