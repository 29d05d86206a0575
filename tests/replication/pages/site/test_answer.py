"""The answer in words follows from the verdicts."""

import re

import pytest

from headprune_lib.replication.claims.verdict import Judged, Row, Verdict
from headprune_lib.replication.pages.site.answer import answer, how_sure, tally


def verdict(claim, word, *, met=True, trainings=1):
    judged = Judged(word, met, "", 1.0, trainings=trainings)
    row = Row(claim, "encoder", "figure3b", "tiny", judged, seen=True, model="tiny")
    return Verdict(claim, word, (row,))


@pytest.mark.parametrize(
    ("one", "many", "title"),
    [
        ("replicates", "mixed", "Most .* can go one at a time; .* less often than reported"),
        ("replicates", "replicates", "Most .* can go one at a time; many .*, as reported"),
        ("differs", "differs", "Many .* cannot go even one .*; .* costs more than reported"),
        ("inconclusive", "inconclusive", "Whether .* is open; whether many .* is open"),
    ],
)
def test_the_title_is_the_answer(one, many, title):
    found = answer([verdict("C1", one), verdict("C2", "differs"), verdict("C3", many)])
    assert re.fullmatch(title, found)


def test_there_is_no_answer_without_its_claims():
    with pytest.raises(ValueError, match="C1 and C3 must be measured"):
        answer([verdict("C2", "replicates")])
    with pytest.raises(ValueError, match="C3 must be measured"):
        answer([verdict("C1", "replicates"), verdict("C3", "not run")])


def test_the_tally_counts_words_and_criteria():
    found = [
        verdict("C1", "replicates"),
        verdict("C2", "replicates", met=False),
        verdict("C3", "mixed"),
        verdict("C4", "differs", met=None),
    ]
    assert tally(found) == (
        "Of the paper's four claims, two replicate, one differs and one is mixed by our rules; two "
        "meet the paper's own criterion wherever we measured."
    )


def test_trainings_are_counted_and_what_is_missing_is_named():
    found = [verdict("C1", "replicates"), verdict("C3", "mixed", trainings=5)]
    models, trainings, not_run = how_sure(found, [])
    assert models == "No model was measured."
    assert trainings == (
        "1 of the 2 results behind the verdicts rest on one training of their model, 1 on 5."
    )
    assert "BERT-base, MNLI, WMT14 and IWSLT14" in not_run
