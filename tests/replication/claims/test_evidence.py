"""Each claim is judged from the results that bear on it, found by looking."""

from dataclasses import replace

import pytest

from headprune_lib.replication import store
from headprune_lib.replication.claims import evidence
from headprune_lib.replication.claims.evidence import others_rows
from headprune_lib.replication.claims.kept import kept_by_others
from headprune_lib.replication.claims.rules import CLAIMS
from headprune_lib.replication.claims.verdict import Verdict
from headprune_lib.replication.published import independent_curves
from headprune_lib.replication.store import Key


def test_without_results_nothing_was_run(tmp_path):
    judged = evidence.all_verdicts(tmp_path)
    assert [v.claim for v in judged] == [*CLAIMS] == [f"C{i}" for i in range(1, 9)]
    assert {v.word for v in judged} == {"not run"}
    assert judged[0].rows[0].name == "figure1b" and len(judged[2].others) == 8


BEFORE = "2026-11-21T00:00:00+00:00"


@pytest.mark.parametrize(
    ("measured", "kind"),
    [
        ({"date": BEFORE}, "exploratory"),
        ({"date": evidence.FIXED}, "confirmatory"),
        ({"date": evidence.FIXED, "first_measured": BEFORE}, "exploratory"),  # it had been seen
    ],
)
def test_what_was_measured_before_the_bounds_is_exploratory(measured, kind):
    stored = store.load(Key("one_head", "snli", "minilm"))
    parts = {name: replace(part, provenance=measured) for name, part in stored.parts.items()}
    (row,) = evidence.rows_of(replace(stored, parts=parts))
    assert row.kind == kind


# --- the paper's own models, as others measured them ---------------------------------------------

SEEDS = {row.name: row for row in others_rows() if "five seeds" in row.setting}
ROWS = {(row.claim, row.name): row for row in others_rows() if row not in SEEDS.values()}


def test_they_never_count():
    assert (len(ROWS), len(SEEDS)) == (8, 4)
    verdict = Verdict(others_rows())
    assert verdict.counted == verdict.one_way == ()


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
