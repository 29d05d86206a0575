"""Each claim is judged from the artifacts that decide it, both halves together."""

import dataclasses

import pytest

from headprune_lib import comparison, experiments, judging, results, verdicts


def test_without_results_nothing_was_run(smoke):
    judged = judging.all_verdicts("smoke")
    assert [v.claim for v in judged] == [f"C{i}" for i in range(1, 9)]
    assert {v.word for v in judged} == {"not run"}


@pytest.mark.parametrize(("artifact", "claims", "half"), [
    ("figure1b", ["C1"], "encoder"), ("table1", ["C1"], "translation"),
    ("table6", ["C2"], "encoder"), ("table5", ["C2"], "translation"),
    ("figure3b", ["C3", "C8"], "encoder"), ("figure3a", ["C3", "C8"], "translation"),
    ("figure4", ["C4"], "translation"), ("figure5", ["C5"], "translation"),
    ("table4", ["C6"], "encoder"), ("figure2b", ["C7"], "encoder"), ("table3", [], ""),
])
def test_artifacts_decide_their_claims(smoke, artifact, claims, half):
    judged = judging.verdicts_of(experiments.get(artifact, smoke))
    assert [v.claim for v in judged] == claims
    assert all(v.half == half and v.word != "not run" for v in judged)


def test_both_halves_count(smoke):
    for artifact in ("figure1b", "table1"):
        experiments.get(artifact, smoke)
    first = judging.all_verdicts("smoke")[0]
    assert first.half == "encoder and translation"
    alone = [judging.verdicts_of(results.load(a, "smoke"))[0] for a in ("figure1b", "table1")]
    assert first.rows == tuple(alone)
    table = comparison.verdict_table([first])
    assert table["verdict"].tolist() == [first.word, "", *(v.word for v in alone)]
    assert table["claim"].tolist()[1:] == [
        "the paper, §3.2", "encoder: Figure 1b", "translation: Table 1"]
    assert "<strong>C1</strong>" in comparison.as_html(table)


def test_results_of_the_profile_base_count_for_the_default_one(smoke, monkeypatch):
    experiments.get("figure1b", smoke)
    first = results.load("figure1b", "smoke")
    monkeypatch.setattr(judging, "FURTHER", {"default": (("smoke", None), ("smoke", "snli"))})
    judged = judging.all_verdicts("default")[0]  # no result of its own in this folder
    assert judged.evidence == ("figure1b (tiny, synthetic)", "table1")[:len(judged.evidence)]
    assert judged.word != "not run" and first.task == "synthetic"


def test_the_rows_of_a_row_count_one_by_one(smoke, monkeypatch):
    experiments.get("figure1b", smoke)

    def row(word):
        return verdicts.Verdict("C1", word, "", "", ("figure1b",), "encoder")

    two_domains = verdicts.combine([row("replicates"), row("differs")])  # inconclusive
    monkeypatch.setitem(judging._EVIDENCE, "C1", (
        ("figure1b", lambda _values: two_domains), ("figure1b", lambda _values: row("differs"))))
    first = judging.all_verdicts("smoke")[0]
    assert [part.word for part in first.rows] == ["replicates", "differs", "differs"]
    assert first.word == "inconclusive"  # as two rows of two it would be "differs"


def test_the_curve_on_sst2_is_named_as_the_papers(smoke, monkeypatch):
    found = experiments.get("figure3b", smoke)
    monkeypatch.setattr(judging, "FURTHER", {"smoke": (("default", "sst2"),)})
    monkeypatch.setattr(results, "stored", lambda artifact, profile, task=None: None if
                        artifact != "figure3b" else dataclasses.replace(
                            found, task=task or found.task))
    third = judging.all_verdicts("smoke")[2]
    assert third.evidence == ("figure3b (tiny, synthetic)", "figure6a (tiny, SST-2)")
