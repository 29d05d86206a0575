"""Each claim is judged from the results that decide it, found by looking."""

import dataclasses

import pytest

from headprune_lib.replication import measurements, store
from headprune_lib.replication.claims import evidence
from headprune_lib.replication.claims.verdict import Verdict, combine
from headprune_lib.replication.measurements.obtaining import results_folder
from headprune_lib.replication.pages import tables


def all_verdicts(smoke):
    return evidence.all_verdicts(results_folder(smoke))


def test_without_results_nothing_was_run(smoke):
    judged = all_verdicts(smoke)
    assert [v.claim for v in judged] == [f"C{i}" for i in range(1, 9)]
    assert {v.word for v in judged} == {"not run"}
    assert judged[0].evidence == ("figure1b",)


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
    judged = evidence.verdicts_of(measurements.get(artifact, smoke))
    assert [v.claim for v in judged] == claims
    assert all(v.half == half and v.word != "not run" for v in judged)


def test_both_halves_count(smoke):
    results = [measurements.get(artifact, smoke) for artifact in ("figure1b", "table1")]
    first = all_verdicts(smoke)[0]
    assert first.half == "encoder and translation"
    alone = [evidence.verdicts_of(result)[0] for result in results]
    assert [row.word for row in first.rows] == [row.word for row in alone]
    assert [row.evidence for row in first.rows] == [("figure1b (tiny, synthetic)",), ("table1",)]
    table = tables.verdict_table([first])
    assert table["verdict"].tolist() == [first.word, "", *(v.word for v in alone)]
    assert "<strong>C1</strong>" in tables.as_html(table)


def test_a_result_of_another_task_counts_without_a_list(smoke, tmp_path):
    own = measurements.get("figure1b", smoke)
    store.save(own, tmp_path)
    store.save(dataclasses.replace(own, task="synthetic-far"), tmp_path)
    first = evidence.all_verdicts(tmp_path)[0]
    assert [row.evidence for row in first.rows] == [
        ("figure1b (tiny, synthetic)",),
        ("figure1b (tiny, synthetic-far)",),
    ]


def test_the_rows_of_a_row_count_one_by_one(smoke, monkeypatch):
    measurements.get("figure1b", smoke)

    def row(word):
        return Verdict("C1", word, "", "", ("figure1b",), "encoder")

    two_domains = combine([row("replicates"), row("differs")])  # inconclusive
    monkeypatch.setitem(
        evidence.EVIDENCE,
        "C1",
        (
            evidence.Evidence("one_head", "encoder", lambda _values, _name: two_domains),
            evidence.Evidence("one_head", "encoder", lambda _values, _name: row("differs")),
        ),
    )
    first = all_verdicts(smoke)[0]
    assert [part.word for part in first.rows] == ["replicates", "differs", "differs"]
    assert first.word == "inconclusive"  # as two rows of two it would be "differs"


def test_the_curve_on_sst2_is_named_as_the_papers(smoke, tmp_path):
    found = measurements.get("figure3b", smoke)
    for task in ("synthetic", "sst2", "snli"):
        store.save(dataclasses.replace(found, task=task), tmp_path)
    third = evidence.all_verdicts(tmp_path)[2]
    assert sorted(name for row in third.rows for name in row.evidence) == [
        "figure3b (tiny, SNLI)",
        "figure3b (tiny, synthetic)",
        "figure6a (tiny, SST-2)",
    ]
