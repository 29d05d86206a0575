"""Rows become a claim's word by one rule, and rows without power do not vote."""

import dataclasses

import pytest

from headprune_lib.replication.claims.claims import CLAIMS
from headprune_lib.replication.claims.verdict import (
    LEAST_POWER,
    NOT_RUN,
    Judged,
    Row,
    by_sign,
    combine,
    ends,
)


def row(word, power=0.9, met=True, aside="", claim="C3"):
    judged = Judged(word, met, "", power, aside=aside) if word != "not run" else NOT_RUN
    return Row(claim, "encoder", "figure3b", "tiny", judged, seen=True)


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["replicates", "replicates"], "replicates"),
        (["replicates", "not run"], "replicates"),
        (["differs", "not run"], "differs"),
        (["replicates", "differs"], "mixed"),
        (["replicates", "inconclusive", "differs"], "mixed"),
        (["mixed", "replicates"], "mixed"),
        (["mixed"], "mixed"),
        (["replicates", "inconclusive"], "replicates"),  # half of them is enough
        (["replicates", "inconclusive", "inconclusive"], "inconclusive"),
        (["differs", "inconclusive"], "differs"),
        (["differs", "inconclusive", "inconclusive"], "inconclusive"),
        (["inconclusive"], "inconclusive"),
        (["not run", "not run"], "not run"),
    ],
)
def test_words_of_rows_become_a_claims_word(words, word):
    rows = [row(each) for each in words]
    assert combine(rows).word == combine(rows[::-1]).word == word


@pytest.mark.parametrize("power", [None, 0.0, LEAST_POWER - 0.01])
def test_a_row_without_power_is_shown_and_does_not_vote(power):
    verdict = combine([row("replicates"), row("differs", power)])
    assert verdict.word == "replicates" and len(verdict.rows) == 2 and len(verdict.voting) == 1
    assert "power" in verdict.rows[1].silent
    assert combine([row("differs", power)]).word == "inconclusive"
    assert combine([row("differs", LEAST_POWER)]).word == "differs"


def test_a_row_that_stands_beside_never_votes():
    verdict = combine([row("differs"), row("replicates", 1.0, aside="others measured it")])
    assert verdict.word == "differs" and verdict.rows[1].silent == "others measured it"


def test_the_papers_criterion_is_counted_over_all_rows_that_show_it():
    rows = [
        row("differs", 0.1, met=True),
        row("replicates", met=False),
        row("replicates", met=None),
    ]
    assert combine(rows).met == (1, 2)


def test_why_counts_the_votes():
    verdict = combine([row("replicates"), row("differs"), row("differs", 0.2), row("not run")])
    assert verdict.why == "Rows that vote: 2 (1 replicates, 1 differs); that do not: 1."
    assert combine([row("differs", 0.2)]).why == "Rows that vote: 0; that do not: 1."
    assert combine([row("not run")]).why == "Not measured."


def test_what_was_seen_is_exploratory():
    assert row("differs").kind == "exploratory"
    assert dataclasses.replace(row("differs"), seen=False).kind == "confirmatory"
    assert dataclasses.replace(row("not run"), seen=None).kind == ""


@pytest.mark.parametrize(
    ("intervals", "up", "down"),
    [
        ([[0.1, 0.3]], "replicates", "differs"),
        ([[0.1, 0.3], [-0.1, 0.2]], "inconclusive", "differs"),
        ([[0.1, 0.3], [-0.3, -0.1]], "differs", "differs"),
        ([[0.0, 0.3]], "inconclusive", "inconclusive"),
    ],
)
def test_signs(intervals, up, down):
    assert by_sign(intervals, 1) == up and by_sign(intervals, -1) == down


@pytest.mark.parametrize("interval", [[0.4, 0.3], [float("nan"), 1.0], [0.0, float("inf")]])
def test_an_interval_has_two_finite_ends(interval):
    with pytest.raises(ValueError, match="two finite numbers, low first"):
        ends(interval)


def test_rows_are_of_one_claim():
    with pytest.raises(ValueError, match="at least one"):
        combine([])
    with pytest.raises(ValueError, match="all on one claim"):
        combine([row("differs"), row("differs", claim="C8")])


def test_claims_are_eight_and_complete():
    assert [claim.id for claim in CLAIMS] == [f"C{i}" for i in range(1, 9)]
    for claim in CLAIMS:
        assert all(dataclasses.astuple(claim))
        for text in (claim.title, claim.paper_value, claim.criterion, claim.rule, claim.effect):
            assert text.endswith((".", ").")), text
