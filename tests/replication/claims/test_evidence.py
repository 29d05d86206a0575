"""Each claim is judged from the results that bear on it, found by looking."""

import dataclasses

import pytest

from headprune_lib.replication import measurements, store
from headprune_lib.replication.claims import evidence, rules
from headprune_lib.replication.claims.rules import CLAIMS


def test_without_results_nothing_was_run(tmp_path):
    judged = evidence.all_verdicts(tmp_path)
    assert [v.claim for v in judged] == [c.id for c in CLAIMS] == [f"C{i}" for i in range(1, 9)]
    assert {v.word for v in judged} == {"not run"}
    assert judged[0].rows[0].name == "figure1b" and len(judged[2].others) == 8


@pytest.mark.parametrize(
    ("artifact", "claims", "half"),
    [
        ("figure1b", ["C1"], "encoder"),
        ("table1", ["C1"], "translation"),
        ("table6", ["C2"], "encoder"),
        ("table5", ["C2"], "translation"),
        ("figure3b", ["C3", "C8"], "encoder"),
        ("figure3a", ["C3", "C8"], "translation"),
        ("figure4", ["C4"], "translation"),
        ("figure5", ["C5"], "translation"),
        ("table4", ["C6"], "encoder"),
        ("figure2b", ["C7"], "encoder"),
        ("table3", [], ""),
    ],
)
def test_results_decide_their_claims(smoke, artifact, claims, half):
    rows = evidence.rows_of(measurements.get(artifact, smoke))
    assert list(dict.fromkeys(row.claim for row in rows)) == claims or artifact == "table4"
    assert all(row.half == half and row.word != "not run" for row in rows)


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


def test_of_texts_with_one_home_the_most_reliable_counts(smoke):
    result = measurements.get("figure2b", smoke)
    (domain,) = result.values["correlations"]
    found = result.values["correlations"][domain]

    def reliable(there):
        spearman = {"r": 0.5, "interval": [0.4, 0.6]}
        known = {"spearman": spearman, "left_out": [0.4, 0.6], "reliability": [0.9, there]}
        return {**found, "loss": {**found["loss"], **known}}

    correlations = {"near": reliable(0.8), "far": reliable(0.95)}
    values = {**result.values, "correlations": correlations}
    near, far = evidence.rows_of(dataclasses.replace(result, values=values))
    assert near.why_not == rules.SAME_HOME and far.why_not != rules.SAME_HOME
