"""Grids in the paper's form: its own numbers above ours, in the same columns."""

import copy
import dataclasses

import numpy as np
import pytest
from bs4 import BeautifulSoup

from headprune_lib.heads import KINDS
from headprune_lib.replication import measurements
from headprune_lib.replication.pages import tables
from headprune_lib.replication.pages.page import collect
from headprune_lib.replication.published import paper
from headprune_lib.replication.titles import order_title


def blocks(grid):
    """Title of a block -> name of a row -> its cells."""
    found = {}
    for body in BeautifulSoup(grid.data, "html.parser").select("tbody"):
        title, *rows = body.select("tr")
        found[title.get_text()] = {
            row.th.get_text(): [cell for cell in row.select("td") if cell.get_text()]
            for row in rows
        }
    return list(found.values())


def number(cell):
    return float(cell.get_text().partition(" ")[0].replace("−", "-"))


def marked(rows):
    return {
        (i, j)
        for i, cells in enumerate(rows.values(), start=1)
        for j, cell in enumerate(cells, start=1)
        if "significant" in cell["class"]
    }


def test_table_1_is_the_papers_and_ours(smoke):
    table1 = measurements.get("table1", smoke)
    theirs, ours = blocks(tables.heads_grid(collect([table1]), "Table 1", ""))
    published = paper("table1")
    assert [[number(cell) for cell in row] for row in theirs.values()] == published["delta_bleu"]
    assert marked(theirs) == {tuple(cell) for cell in published["significant"]}
    own = [head for head in table1.values["heads"] if head["kind"] == "enc-enc"]
    assert [number(cell) for row in ours.values() for cell in row] == pytest.approx(
        [head["delta"] for head in own], abs=0.0051
    )
    assert marked(ours) == {
        (head["layer"] + 1, head["head"] + 1) for head in own if head["p_paper"] < 0.01
    }


@pytest.mark.parametrize("artifact", ["table2", "table5"])
def test_tables_2_and_5_have_a_row_a_kind(artifact, smoke):
    theirs, ours = blocks(
        tables.kinds_grid(artifact, collect([measurements.get(artifact, smoke)]), "Table 2", "")
    )
    assert tuple(theirs) == tuple(ours) == KINDS
    published = paper(artifact)
    for kind, cells in theirs.items():
        assert [number(cell) for cell in cells] == published[kind]["delta_bleu"]
    assert sum(len(row["significant"]) for row in published.values()) == len(marked(theirs))


@pytest.mark.parametrize("artifact", ["table3", "table6"])
def test_tables_3_and_6_have_a_row_a_model(artifact, smoke):
    one = measurements.get(artifact, smoke)
    (rows,) = blocks(tables.layers_grid(artifact, collect([one]), "Table 3", ""))
    theirs, ours = rows.values()
    assert [number(cell) for cell in theirs] == paper(artifact)["delta_accuracy_percent"]
    assert [number(cell) for cell in ours] == pytest.approx(
        [100 * row["delta"] for row in one.values["layers"]], abs=0.0051
    )


def test_table_4_has_a_column_a_batch_size_and_the_papers_gain(smoke):
    shown = collect([measurements.get("table4", smoke)])
    theirs, *ours = blocks(tables.speeds_grid(shown, "Table 4", ""))
    assert theirs["times as fast"][2].get_text() == f"{134.0 / 114.0:.2f}"
    assert len(ours) == 2  # the fine-tuned model, and the shape with random weights


def test_what_was_timed_elsewhere_is_told_apart_in_table_4(smoke):
    here = measurements.get("table4", smoke)
    (part,) = here.parts.values()
    provenance = {**part.provenance, "hardware": {**part.provenance["hardware"], "gpu": "NVIDIA X"}}
    there = dataclasses.replace(
        here, model="bert-base", parts={"all": dataclasses.replace(part, provenance=provenance)}
    )
    grid = tables.speeds_grid(collect([there, here]), "Table 4", "").data
    titles = [row.get_text() for row in BeautifulSoup(grid, "html.parser").select("th.block")]
    assert len(titles) == 5  # the paper's; a model and the shape of each machine
    assert sum(title.endswith(", NVIDIA X") for title in titles) == 2
    assert "here: BERT-base, synthetic, NVIDIA X" in titles


def another(result):
    """The same outcomes under the name of the paper's own translator."""
    return dataclasses.replace(result, task="wmt14-enfr")


def test_another_translator_has_a_block_of_its_own(smoke):
    table1 = measurements.get("table1", smoke)
    grid = tables.heads_grid(collect([table1, another(table1)]), "Table 1", "")
    _, ours, theirs = blocks(grid)
    assert ours == theirs and "here: post-norm translator, WMT14 en-fr, " in grid.data
    table5 = measurements.get("table5", smoke)
    grid = tables.kinds_grid("table5", collect([table5, another(table5)]), "Table 5", "")
    _, ours, theirs = blocks(grid)
    assert ours == theirs and "WMT14 en-fr" in grid.data


def of_moses_tokens(result):
    """The same with sacrebleu's own BLEU beside it, as where BLEU is of Moses' tokens."""
    values = copy.deepcopy(result.values)
    values["baseline"]["sacrebleu"] = 12.345
    for number, record in enumerate(values.get("heads") or values["layers"]):
        record["delta_sacrebleu"] = -number / 100
    return dataclasses.replace(another(result), values=values)


@pytest.mark.parametrize("artifact", ["table1", "table2", "table5"])
def test_sacrebleus_own_changes_stand_below_those_of_moses_tokens(artifact, smoke):
    plain = measurements.get(artifact, smoke)
    both = of_moses_tokens(plain)
    shown = collect([plain, both])
    grid = (
        tables.heads_grid(shown, "Table 1", "")
        if artifact == "table1"
        else tables.kinds_grid(artifact, shown, "Table 2", "")
    )
    _, first, second, beside = blocks(grid)
    assert first == second, "its own changes as before"
    assert grid.data.count("as sacrebleu takes BLEU") == 1 and not marked(beside)
    assert "of Moses’ tokens, 12.35 as sacrebleu takes it" in grid.data
    records = both.values.get("heads") or both.values["layers"]
    kept = [one for one in records if artifact != "table1" or one["kind"] == "enc-enc"]
    cells = {(one["kind"], one["layer"], one["head"]): one["delta_sacrebleu"] for one in kept}
    expected = (
        [cells[key] for key in sorted(cells)]
        if artifact == "table1"
        else [cells[key] for kind in KINDS for key in sorted(cells) if key[0] == kind]
    )
    assert [number(cell) for row in beside.values() for cell in row] == pytest.approx(expected)


def test_sacrebleus_own_curves_stand_beside_those_of_moses_tokens(smoke):
    for artifact, table, column in (
        ("figure3a", tables.curves_table, "sacrebleu takes it"),
        ("figure4", tables.kinds_table, "enc-dec, as sacrebleu takes BLEU"),
    ):
        plain = measurements.get(artifact, smoke)
        values = copy.deepcopy(plain.values)
        for curve in values["curves"].values():
            curve["sacrebleu"] = [mean + 7 for mean in curve["mean"]]
        shown = table(dataclasses.replace(plain, values=values))
        assert not [name for name in table(plain) if "sacrebleu" in name]
        (beside, *_) = [name for name in shown if name.endswith(column)]
        means = values["curves"]["importance" if artifact == "figure3a" else "enc-dec importance"]
        if artifact == "figure3a":
            mean = np.mean(means["mean"])
            cell = shown.set_index("order")[beside][order_title("importance")]
            assert cell == f"{mean:.1f}, {mean + 7:.1f}"
        else:
            assert shown[beside][0].startswith(f"{means['mean'][0] + 7:.1f} (")


def test_sacrebleus_own_stands_beside_each_checkpoint(smoke):
    plain = measurements.get("figure5", smoke)
    values = copy.deepcopy(plain.values)
    points = [point for one in values["trainings"] for point in one["checkpoints"]]
    for number, point in enumerate(points):
        point["sacrebleu"] = [10.0 + number, 0.0]
    table = tables.checkpoints_table(dataclasses.replace(plain, values=values))
    assert table["sacrebleu’s"].tolist() == [f"{10 + i:.1f}" for i in range(len(points))]
    assert table["BLEU"].tolist() == tables.checkpoints_table(plain)["BLEU"].tolist()
    assert "sacrebleu’s" not in tables.checkpoints_table(plain)


def test_how_a_result_is_measured_again(smoke):
    table1 = measurements.get("table1", smoke)
    (row,) = tables.again_table([table1]).to_dict("records")
    assert row["result"].startswith("Table 1: ")
    assert f"headprune reproduce {table1.measurement} " in row["command"]
    seconds = next(iter(table1.parts.values())).provenance["seconds"]
    assert row["minutes"] == f"{seconds / 60:.0f}"
    path = f"../data/results/{table1.measurement}/{table1.task}.{table1.model}"
    assert f'href="{path}.json"' in row["values"] and f'href="{path}.csv"' in row["values"]


def test_several_commands_are_folded_and_one_is_not(smoke):
    table1 = measurements.get("table1", smoke)
    part = next(iter(table1.parts.values()))
    parts = {
        command: dataclasses.replace(part, provenance={**part.provenance, "command": command})
        for command in ("headprune reproduce a --by 'x'", "headprune reproduce a --by '<y>'")
    }
    (one,) = tables.again_table([table1]).to_dict("records")
    (two,) = tables.again_table([dataclasses.replace(table1, parts=parts)]).to_dict("records")
    assert one["command"].startswith("<code>headprune reproduce ")
    fold = BeautifulSoup(two["command"], "html.parser").details
    assert fold.summary.text == "2 commands"
    assert [code.text for code in fold.find_all("code")] == list(parts)


def test_parts_of_several_machines_name_them_all_the_newest_first(smoke):
    table1 = measurements.get("table1", smoke)
    part = next(iter(table1.parts.values()))
    hardware = {"cpu": "a processor", "cores": 2, "gpu": None}
    parts = {
        name: dataclasses.replace(part, provenance={**part.provenance, **made})
        for name, made in (
            ("old", {"date": "2026-11-01T00:00:00+00:00", "hardware": hardware}),
            (
                "new",
                {"date": "2026-11-03T00:00:00+00:00", "hardware": {**hardware, "gpu": "a GPU"}},
            ),
            ("as old", {"date": "2026-11-02T00:00:00+00:00", "hardware": hardware}),
        )
    }
    (row,) = tables.again_table([dataclasses.replace(table1, parts=parts)]).to_dict("records")
    assert row["measured"].startswith("2026-11-03, a GPU; a processor")
    assert row["measured"].count("a processor") == 1
