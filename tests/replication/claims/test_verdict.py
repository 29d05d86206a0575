"""Results become a claim's word by one rule, and results without power do not count."""

import pytest

from headprune_lib.replication.claims.verdict import LEAST_POWER, NOT_RUN, Judged, Row, Verdict


def row(word, power=0.9, met=True, aside="", half="encoder"):
    judged = Judged(word, met, "", power, aside=aside) if word != "not run" else NOT_RUN
    return Row("C3", half, "figure3b", "tiny", judged)


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["replicates", "replicates", "not run"], "replicates"),
        (["differs", "not run"], "differs"),
        (["replicates", "differs"], "mixed"),
        (["replicates", "undecided", "differs"], "mixed"),
        (["mixed", "replicates"], "mixed"),
        (["mixed"], "mixed"),
        (["replicates", "undecided"], "replicates"),  # half of them is enough
        (["replicates", "undecided", "undecided"], "undecided"),
        (["differs", "undecided"], "undecided"),
        (["differs", "differs", "undecided"], "undecided"),
        (["undecided"], "undecided"),
        (["not run", "not run"], "not run"),
    ],
)
def test_words_of_results_become_a_claims_word(words, word):
    rows = [row(each) for each in words]
    assert Verdict(rows).word == Verdict(rows[::-1]).word == word


@pytest.mark.parametrize("power", [None, 0.0, LEAST_POWER - 0.01])
def test_a_result_without_power_is_shown_and_does_not_count(power):
    verdict = Verdict([row("replicates"), row("differs", power)])
    assert verdict.word == "replicates" and len(verdict.rows) == 2 and len(verdict.counted) == 1
    assert "power" in verdict.rows[1].why_not
    assert Verdict([row("differs", power)]).word == "undecided"
    assert Verdict([row("differs", LEAST_POWER)]).word == "differs"


def test_a_result_that_could_only_differ_is_told_apart():
    beside = row("differs", 1.0, aside="others measured it")
    rows = [row("replicates"), row("differs", 0.1), row("replicates", 0.1), beside, row("not run")]
    verdict = Verdict(rows)
    assert verdict.one_way == (rows[1],) and verdict.word == "replicates"
    assert beside.why_not == "others measured it" and not beside.counts
    assert verdict.why == (
        "Results that count: 1 (1 replicates); that do not: 3, 1 of them differs with too little "
        "power to replicate."
    )
    assert Verdict([row("not run")]).why == "Not measured."


def test_the_papers_criterion_is_counted_over_all_results_that_show_it():
    rows = [row("differs", 0.1), row("replicates", met=False), row("replicates", met=None)]
    assert Verdict(rows).met == (1, 2)


@pytest.mark.parametrize(
    ("encoders", "translators", "sentence"),
    [
        (["undecided"], [], "1 of 2 results count: 1 undecided"),
        (["replicates"], ["replicates"] * 2, "3 of 4 results count: 3 replicate"),
        (
            ["replicates", "undecided"],
            ["replicates"],
            "3 of 4 results count. Encoders: 1 replicates, 1 undecided. Translator: replicates",
        ),
    ],
)
def test_kinds_of_models_whose_results_differ_are_told_apart(encoders, translators, sentence):
    rows = [*map(row, encoders), *(row(word, half="translation") for word in translators)]
    assert Verdict([*rows, row("differs", power=0.1)]).how_many_count == sentence
