"""Each claim is judged from the results that bear on it, found by looking."""

import dataclasses

import pytest

from headprune_lib.replication import measurements, store
from headprune_lib.replication.claims import evidence, rules
from headprune_lib.replication.measurements.obtaining import results_folder
from headprune_lib.replication.pages import tables


def all_verdicts(smoke):
    return evidence.all_verdicts(results_folder(smoke))


def test_without_results_nothing_was_run(smoke):
    judged = all_verdicts(smoke)
    assert [v.claim for v in judged] == [f"C{i}" for i in range(1, 9)]
    assert {v.word for v in judged} == {"not run"}
    assert judged[0].rows[0].name == "figure1b"


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
    assert list(dict.fromkeys(row.claim for row in rows)) == claims
    assert all(row.half == half and row.word != "not run" for row in rows)


def test_both_halves_count(smoke):
    results = [measurements.get(artifact, smoke) for artifact in ("figure1b", "table1")]
    first = all_verdicts(smoke)[0]
    assert list(first.rows) == [row for result in results for row in evidence.rows_of(result)]
    assert [(row.name, row.setting) for row in first.rows] == [
        ("figure1b", "tiny, synthetic"),
        ("table1", "post-norm translator, toy"),
    ]
    assert "<strong>C1</strong>" in tables.as_html(tables.claims_table([first]))
    shown = tables.rows_table(first.rows)
    assert shown["where"].tolist() == [
        "Figure 1b: tiny, synthetic",
        "Table 1: post-norm translator, toy",
    ]
    assert shown["data"].tolist() == ["confirmatory"] * 2  # measured just now


def test_a_result_of_another_task_counts_without_a_list(smoke, tmp_path):
    own = measurements.get("figure1b", smoke)
    store.save(own, tmp_path)
    store.save(dataclasses.replace(own, task="synthetic-far"), tmp_path)
    first = evidence.all_verdicts(tmp_path)[0]
    assert [row.setting for row in first.rows] == ["tiny, synthetic", "tiny, synthetic-far"]


def test_what_was_measured_before_the_rules_is_exploratory(smoke):
    own = measurements.get("figure1b", smoke)
    for date, kind in (("2026-11-21T00:00:00+00:00", "exploratory"), (rules.FIXED, "confirmatory")):
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


def test_each_domain_and_both_pairs_of_batch_sizes_are_rows(smoke):
    domains = evidence.rows_of(measurements.get("figure2b", smoke))
    assert [row.setting.split(", ")[-1] for row in domains] == ["synthetic-far"]
    speed = evidence.rows_of(measurements.get("table4", smoke))
    assert {row.claim for row in speed} <= {"C6"}


def test_the_curve_on_sst2_is_named_as_the_papers(smoke, tmp_path):
    found = measurements.get("figure3b", smoke)
    for task in ("synthetic", "sst2", "snli"):
        store.save(dataclasses.replace(found, task=task), tmp_path)
    third = evidence.all_verdicts(tmp_path)[2]
    assert sorted((row.name, row.setting) for row in third.rows) == [
        ("figure3b", "tiny, SNLI"),
        ("figure3b", "tiny, synthetic"),
        ("figure6a", "tiny, SST-2"),
    ]


def test_what_is_kept_is_read_at_the_share_of_the_task(smoke):
    values = measurements.get("figure3b", smoke).values
    at = evidence.kept_at(values, values["shares"][1])
    assert at["kept"] == values["kept"]["importance"]["kept"][1]
    assert evidence.kept_at(values, 0.123) is None
    assert evidence.kept_at(values, values["shares"][1], "oracle of Delphi") is None


def test_rows_say_how_many_trainings_their_means_are_over(smoke):
    rows = {
        artifact: rows_by_claim(measurements.get(artifact, smoke))
        for artifact in ("figure3b", "figure4")
    }
    assert rows["figure3b"]["C8"].judged.trainings == 1
    assert rows["figure4"]["C4"].judged.trainings == 1
    kinds = measurements.get("figure4", smoke)
    curves = {
        name: {**curve, "runs": [curve["mean"]] * 3}
        for name, curve in kinds.values["curves"].items()
    }
    again = dataclasses.replace(kinds, values={**kinds.values, "curves": curves})
    assert rows_by_claim(again)["C4"].judged.trainings == 3


def test_one_by_one_on_three_trainings_is_divided_by_what_the_three_keep_uncut(smoke):
    figure = measurements.get("figure3b", smoke)
    chance, difference = figure.values["chance"], {"difference": 0.1, "interval": [0.05, 0.15]}
    curve = {"mean": [chance + 0.4, chance], "runs": [[chance + 0.4, chance]]}
    three = {"mean": [chance + 0.2, chance], "runs": [[chance + 0.2, chance]] * 3}
    values = {
        **figure.values,
        "curves": {"importance main": curve, "importance": three, "oracle leak-free": three},
        "early_area_differences": {"oracle leak-free": difference},
    }
    row = rows_by_claim(dataclasses.replace(figure, values=values))["C8"]
    assert row.judged.trainings == 3
    assert "+0.500 [+0.250, +0.750]" in row.judged.measured


def rows_by_claim(result):
    return {row.claim: row for row in evidence.rows_of(result)}
