"""What pages tell of results that nobody measured: the worst head, missing results, no better than chance.

What they show of the stored ones is compared cell by cell in ``test_notebooks.py``.
"""

import dataclasses

import matplotlib.pyplot as plt
import numpy as np
import pytest
from bs4 import BeautifulSoup

from headprune_lib.replication import store
from headprune_lib.replication.claims.verdict import Judged, Row, combine
from headprune_lib.replication.pages import plots, tables
from headprune_lib.replication.pages.frames import prunable_at
from headprune_lib.replication.pages.page import collect
from headprune_lib.replication.pages.plots.style import looks
from headprune_lib.replication.pages.tables.beyond import leaderboard_rows
from headprune_lib.replication.store import Key, Result

UNKNOWN = {"not measured"}


def stored(measurement: str, task: str = "reviews", model: str = "minilm", **values) -> Result:
    """A stored result, with some of its values replaced."""
    result = store.load(Key(measurement, task, model))
    return dataclasses.replace(result, values={**result.values, **values})


def named(result: Result, task: str, model: str, **values) -> Result:
    """The result as if of another task and model, with some of its values replaced."""
    values = {**result.values, **values}
    return dataclasses.replace(result, task=task, model=model, values=values)


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


# Tables.


def blocks(grid):
    """Of each block: name of a row -> its cells."""
    page = BeautifulSoup(grid.data, "html.parser")
    return [
        {
            row.th.get_text(): [cell for cell in row.select("td") if cell.get_text()]
            for row in body.select("tr")[1:]
        }
        for body in page.select("tbody")
    ]


def cells(rows):
    every = (cell.get_text().partition(" ")[0] for row in rows.values() for cell in row)
    return [float(text.replace("−", "-")) for text in every]


def test_grids_have_layers_from_above_signs_and_marks():
    heads = [
        {**head, "delta": -0.01 * (16 * head["layer"] + head["head"]), "p_paper": 1.0}
        for head in stored("one_head", "enfr", "post-norm").values["heads"]
    ]
    of_encoder = [head for head in heads if head["kind"] == "enc-enc"]
    of_encoder[17]["p_paper"] = 0.001
    table1 = stored("one_head", "enfr", "post-norm", heads=heads)
    theirs, ours = blocks(tables.heads_grid(collect([table1]), "Table 1", ""))
    assert [*theirs] == [*ours] == ["1", "2", "3", "4", "5", "6"]
    assert cells(ours) == pytest.approx([-0.01 * i for i in range(96)])
    marked = [
        (layer, head)
        for layer, row in ours.items()
        for head, cell in enumerate(row, 1)
        if "significant" in cell["class"]
    ]
    assert marked == [("2", 2)]
    layers = stored("all_but_one", "sst2", "mpnet").values["layers"]
    layers = [{**row, "delta": -0.0123 if i else 0.02} for i, row in enumerate(layers)]
    table3 = collect([stored("all_but_one", "sst2", "mpnet", layers=layers)])
    (rows,) = blocks(tables.layers_grid("table3", table3, "Table 3", ""))
    assert cells({"ours": [*rows.values()][1]}) == [2.0] + [-1.23] * 11


def test_one_fine_tuning_is_not_compared_with_itself():
    curve = stored("pruning_curve")
    tasks = ("snli", "snli-held", "cola")  # the first two are measured with the same models
    (pair,) = tables.pairs_of_tasks(collect([named(curve, one, "minilm") for one in tasks]))
    assert pair.tasks == ("snli", "cola") and pair.common == pair.fifth
    np.testing.assert_array_equal(*pair.importance)


def test_the_leaderboard_has_the_best_first():
    areas = {"importance": 0.5, "random": 0.7, "entropy": 0.6}
    orders = {
        name: {**one, "area": {"value": areas[name], "interval": [0.1, 1.0]}}
        for name, one in stored("which_first").values["orders"].items()
        if name in areas
    }
    result = stored("which_first", orders=orders, least_above_chance=0.1)
    rows = leaderboard_rows({"tiny": result})
    assert [row["order"] for row in rows] == ["random", "entropy", "importance"]


def test_without_results_nothing_is_shown():
    for table in (
        tables.heads_tasks_table,
        tables.agreement_tasks_table,
    ):
        assert table({}).empty
    assert tables.difficulty_table({}, {}).empty


def test_what_was_not_measured_is_refused_with_what_was():
    values = {"prunable": {"importance": {"2%": {"share": 0.4, "interval": [0.3, 0.5]}}}}
    with pytest.raises(KeyError, match="order 'oracle' was not measured; there are importance"):
        prunable_at(values, "oracle")
    with pytest.raises(KeyError, match="no share at a loss of 7%; there are 2%"):
        prunable_at(values, tolerance=0.07)


def test_what_is_new_stands_beside_the_words_of_the_day_the_rules_were_fixed():
    judged = [Judged("differs", True, "", power) for power in (1.0, 0.0)]
    settings = ("MiniLM, MNLI", "MiniLM, reviews")
    rows = map(Row, ["C1"] * 2, ["encoder"] * 2, ["figure1b"] * 2, settings, judged)
    told = tables.new_data_table([combine([*rows])]).to_numpy().tolist()
    assert told[:3] == [
        ["C1", "the claim", "replicates", "", "differs", ""],
        ["C1", "Figure 1b: MiniLM, MNLI", "–", "–", "differs", "yes"],
        ["C1", "Figure 1b: MiniLM, reviews", "replicates", "yes", "differs", "no"],
    ]
    assert ["C1", "Figure 1b: MPNet, SST-2", "replicates", "yes", "–", "–"] in told


# Figures.


def test_each_line_is_the_order_that_its_label_names():
    values = stored("pruning_curve").values
    curves, prunable = values["curves"], values["prunable"]
    levels = {name: i / 100 for i, name in enumerate([*curves, "new"])}
    made = {name: {**curves.get(name, curves["oracle"])} for name in levels}
    for name, curve in made.items():
        curve["mean"] = [levels[name]] * len(curve["mean"])
    prunable = {**prunable, "new": prunable["oracle"]}
    result = stored("pruning_curve", curves=made, prunable=prunable)
    drawn = {
        line.get_label().partition(" (mean of")[0]: line.get_ydata()
        for line in plots.figure3b(result).axes[0].get_lines()
    }
    rivals = [name for name in levels if not name.startswith("importance ")]
    for name, look in looks(rivals).items():
        np.testing.assert_allclose(drawn[look.label], 100 * levels[name], err_msg=name)
