"""The paper's own models, as others measured them, by both columns and without a vote."""

import numpy as np
import pytest

from headprune_lib.replication.claims import evidence
from headprune_lib.replication.claims.others import others_rows
from headprune_lib.replication.claims.verdict import combine
from headprune_lib.replication.published import independent_curves

ROWS = {(row.claim, row.name): row for row in others_rows()}


def test_they_never_vote(tmp_path):
    assert not any(row.votes for row in ROWS.values())
    by_claim = {verdict.claim: verdict for verdict in evidence.all_verdicts(tmp_path)}
    assert [row.name for row in by_claim["C3"].others] == [
        "figure3b",
        "figure6a",
        "figure6b",
        "figure6d",
    ]
    assert by_claim["C3"].word == "not run" and by_claim["C3"].met == (0, 0)
    assert combine(by_claim["C3"].rows, ROWS.values()).word == "not run"


@pytest.mark.parametrize(
    ("name", "kept"), [("figure3b", 98.6), ("figure6a", 96.9), ("figure6b", 101.2)]
)
def test_what_is_kept_is_a_plain_ratio(name, kept):
    curve = independent_curves()[name]
    share = {"figure3b": 0.4, "figure6a": 0.6, "figure6b": 0.5}[name]
    removed, score = [0, *curve["heads_removed"]], [curve["base"], *curve["score"]]
    below = max(i for i, n in enumerate(removed) if n <= share * 144)
    part = (share * 144 - removed[below]) / (removed[below + 1] - removed[below])
    cut = score[below] + part * (score[below + 1] - score[below])
    assert 100 * (cut - curve["chance"]) / (curve["base"] - curve["chance"]) == pytest.approx(
        kept, abs=0.06
    )
    assert f"{kept:.1f}%" in ROWS["C3", name].judged.measured


def test_bert_on_mnli_replicates_with_an_interval_wider_than_a_paired_one(drawn_seed):
    row = ROWS["C3", "figure3b"]
    assert (row.word, row.judged.met) == ("replicates", True)
    curve, rng = independent_curves()["figure3b"], np.random.default_rng(drawn_seed)
    uncut, cut = (rng.binomial(9815, p, 200_000) / 9815 for p in (curve["base"], 0.8309))
    drawn = (cut - curve["chance"]) / (uncut - curve["chance"])
    low, high = _ends(row.judged.measured)
    width = 100 * (np.quantile(drawn, 0.975) - np.quantile(drawn, 0.025))
    assert high - low == pytest.approx(width, rel=0.05)


def _ends(measured):
    low, high = measured.split("[")[1].split("]")[0].split(", ")
    return float(low.strip("%")), float(high.strip("%"))


def test_bleu_has_the_papers_criterion_alone():
    for claim, name in (
        ("C3", "figure6d"),
        ("C4", "figure4"),
        ("C5", "figure5"),
        ("C8", "figure6d"),
    ):
        row = ROWS[claim, name]
        assert row.word == "inconclusive" and row.judged.met is not None, claim
