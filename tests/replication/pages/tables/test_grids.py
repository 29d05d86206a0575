"""Grids in the paper's form: its own numbers above ours, in the same columns."""

import dataclasses

import pytest
from bs4 import BeautifulSoup

from headprune_lib.heads import KINDS
from headprune_lib.replication import measurements
from headprune_lib.replication.pages import tables
from headprune_lib.replication.pages.page import collect
from headprune_lib.replication.published import paper


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


def test_how_a_result_is_measured_again(smoke):
    table1 = measurements.get("table1", smoke)
    (row,) = tables.again_table([table1]).to_dict("records")
    assert row["result"].startswith("Table 1: ")
    assert f"headprune reproduce {table1.measurement} " in row["command"]
    seconds = next(iter(table1.parts.values())).provenance["seconds"]
    assert row["minutes"] == f"{seconds / 60:.0f}"
    path = f"../data/results/{table1.measurement}/{table1.task}.{table1.model}"
    assert f'href="{path}.json"' in row["values"] and f'href="{path}.csv"' in row["values"]
