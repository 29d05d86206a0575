"""The paper's own models, as others measured them, by both columns; none counts."""

import pytest

from headprune_lib.replication.claims.others import kept_by_others, others_rows
from headprune_lib.replication.published import independent_curves

ROWS = {(row.claim, row.name): row for row in others_rows()}


def test_they_never_count():
    assert len(ROWS) == 8 and not any(row.counts or row.one_way for row in ROWS.values())


@pytest.mark.parametrize(
    ("name", "share", "kept"),
    [("figure3b", 0.4, 98.6), ("figure6a", 0.6, 96.9), ("figure6b", 0.5, 101.2)],
)
def test_what_is_kept_is_a_plain_ratio(name, share, kept):
    curve = independent_curves()[name]
    removed, score = [0, *curve["heads_removed"]], [curve["base"], *curve["score"]]
    below = max(i for i, n in enumerate(removed) if n <= share * 144)
    part = (share * 144 - removed[below]) / (removed[below + 1] - removed[below])
    cut = score[below] + part * (score[below + 1] - score[below])
    plain = (cut - curve["chance"]) / (curve["base"] - curve["chance"])
    assert kept_by_others(curve["task"]) == pytest.approx(plain)
    assert f"{kept:.1f}%" in ROWS["C3", name].judged.measured
    assert kept_by_others("mrpc") == kept_by_others("iwslt") == 1.0


def test_bleu_has_the_papers_criterion_alone():
    for place in (("C3", "figure6d"), ("C4", "figure4"), ("C5", "figure5"), ("C8", "figure6d")):
        assert ROWS[place].word == "undecided" and ROWS[place].judged.met is not None, place
