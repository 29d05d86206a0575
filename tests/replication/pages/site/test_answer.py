"""The answer in words is computed from the verdicts."""

import pytest

from headprune_lib.replication.claims.verdict import Estimate, Judged, Row, Verdict
from headprune_lib.replication.pages.site.answer import (
    answer,
    how_sure,
    ours,
    standing,
    tally,
    title,
)


def result(claim, word, half="encoder", power=0.9, met=True):
    judged = Judged(word, met, "", power)
    return Row(claim, half, "figure3b", "tiny", judged, model="tiny")


def verdict(claim, word, *, met=True, trainings=1):
    judged = Judged(word, met, "", 1.0, trainings=trainings)
    row = Row(claim, "encoder", "figure3b", "tiny", judged, model="tiny")
    return Verdict((row,))


HOLDS = [result("C1", "replicates"), result("C1", "replicates", "translation")]
OPEN = [result("C3", "replicates"), result("C3", "undecided"), result("C3", "undecided")]


@pytest.mark.parametrize(
    ("results", "counted", "listed"),
    [
        (
            [HOLDS, OPEN],
            "2 of 4 encoder results that count replicate (2 undecided), and 1 of 1 translator results "
            "that count replicates",
            "- **Replicated:** most heads can be removed one at a time (C1).\n"
            "- **Undecided:** whether many heads can be removed together (C3).",
        ),
        (
            [HOLDS, [result("C2", "differs"), result("C2", "differs", power=0.1)]],
            "1 of 2 encoder results that count replicates (1 differs), and 1 of 1 translator results "
            "that count replicates",
            "- **Replicated:** most heads can be removed one at a time (C1).\n"
            "- **Not replicated:** one head is enough in many layers (C2).",
        ),
        (
            [HOLDS, [result("C2", "differs"), result("C2", "replicates")], [result("C5", "mixed")]],
            "2 of 4 encoder results that count replicate (1 differs, 1 mixed), and 1 of 1 translator "
            "results that count replicates",
            "- **Replicated:** most heads can be removed one at a time (C1).\n"
            "- **Mixed:** whether one head is enough in many layers (C2) and whether important heads "
            "separate early in training (C5).",
        ),
    ],
)
def test_the_answer_follows_from_the_results(results, counted, listed):
    verdicts = [Verdict(rows) for rows in results]
    assert (answer(verdicts), standing(verdicts)) == (counted, listed)


def test_there_is_no_answer_where_no_result_counts():
    with pytest.raises(ValueError, match="no result counts"):
        answer([Verdict([result("C1", "replicates", power=0.2)])])


def test_the_tally_counts_criteria_and_what_could_only_differ():
    found = [
        verdict("C1", "replicates"),
        verdict("C2", "replicates", met=False),
        verdict("C3", "mixed"),
        verdict("C4", "differs", met=None),
    ]
    told = (
        "By our reading of the paper's own criterion, C1 and C3 hold wherever it can be applied, C2 "
        "nowhere."
    )
    assert tally(found) == told
    assert title(found) == "Two of four claims replicate"
    found[1] = Verdict([result("C2", "differs", power=0.1, met=False)])
    assert "One more result differs but does not count" in tally(found)
    assert "*replicates* with a probability of at most 0.10 even if" in tally(found)
    assert tally(found).endswith(": one on C2.")


def test_trainings_are_counted_and_what_is_missing_is_named():
    found = [verdict("C1", "replicates"), verdict("C3", "mixed", trainings=5)]
    models, trainings, not_run = how_sure(found, [])
    assert models == "No model was measured."
    assert trainings.endswith("rest on a single training of their model, the others on five.")
    assert "BERT-base, MNLI, WMT14 and IWSLT14" in not_run


def test_a_range_names_the_papers_measure_and_intervals_that_include_the_bound():
    open_, shown = Estimate(0.1, (-0.1, 0.3)), Estimate(0.2, (0.1, 0.3))
    judged = [
        Judged("undecided", True, "", power, estimates=[estimate], as_the_paper=pearsons)
        for power, estimate, pearsons in (
            (0.9, open_, [Estimate(0.4, (0.2, 0.6), label="Pearson")]),
            (0.1, shown, []),
        )
    ]
    verdict = Verdict([Row("C7", "encoder", "figure2b", "tiny", each, "tiny") for each in judged])
    counted = "of those that count 0.10 (every interval includes 0), 0.40 (Pearson)"
    assert ours(verdict).endswith(f"two texts: {counted}; of all 0.10 to 0.20, 0.40 (Pearson)")
