"""Each claim is judged from the results that bear on it, found by looking."""

import dataclasses

from headprune_lib.replication import measurements, store
from headprune_lib.replication.claims import evidence
from headprune_lib.replication.claims.rules import CLAIMS


def test_without_results_nothing_was_run(tmp_path):
    judged = evidence.all_verdicts(tmp_path)
    assert [v.claim for v in judged] == [c.id for c in CLAIMS] == [f"C{i}" for i in range(1, 9)]
    assert {v.word for v in judged} == {"not run"}
    assert judged[0].rows[0].name == "figure1b" and len(judged[2].others) == 8


def test_both_halves_count_and_a_result_of_another_task_needs_no_list(smoke, tmp_path):
    results = [measurements.get(artifact, smoke) for artifact in ("figure1b", "table1")]
    for result in (*results, dataclasses.replace(results[0], task="sst2")):
        store.save(result, tmp_path)
    rows = evidence.all_verdicts(tmp_path)[0].rows
    assert [(row.name, row.setting) for row in rows] == [
        ("figure1b", "tiny, synthetic"),
        ("figure1b", "tiny, SST-2"),
        ("table1", "post-norm translator, toy"),
    ]


def test_what_was_measured_before_the_bounds_is_exploratory(smoke):
    own = measurements.get("figure1b", smoke)
    for date, kind in (
        ("2026-11-21T00:00:00+00:00", "exploratory"),
        (evidence.FIXED, "confirmatory"),
    ):
        parts = {
            name: dataclasses.replace(part, provenance={**part.provenance, "date": date})
            for name, part in own.parts.items()
        }
        (row,) = evidence.rows_of(dataclasses.replace(own, parts=parts))
        assert row.kind == kind
        for part in parts.values():
            part.provenance["first_measured"] = "2026-11-21T00:00:00+00:00"
        (again,) = evidence.rows_of(dataclasses.replace(own, parts=parts))
        assert again.kind == "exploratory", "measured again, after it had been seen"
