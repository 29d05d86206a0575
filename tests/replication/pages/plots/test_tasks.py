"""Figures over models and tasks, from results of the profile ``smoke``."""

import dataclasses

import matplotlib.pyplot as plt
import numpy as np
import pytest

from headprune_lib.replication import measurements
from headprune_lib.replication.pages import plots
from headprune_lib.replication.pages.page import collect


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


@pytest.fixture
def found(smoke):
    """Name -> result of some measurements, and of each a made-up model's on a task nobody lists."""

    def collected(*names):
        stored = [measurements.get(name, smoke) for name in names]
        added = dataclasses.replace(stored[0], model="new-model", task="new-task")
        return collect([*stored, added])

    return collected


def legend(axes) -> list[str]:
    return axes.get_legend_handles_labels()[1]


def said(figure) -> str:
    return " ".join(text.get_text() for axes in figure.axes for text in axes.texts)


def test_a_new_task_is_in_every_figure(found):
    new = "new-model, new-task"
    lines = plots.pruned_tasks(found("figure3b", "figure6b", "figure6c")).axes[0]
    assert legend(lines) == [
        "tiny, synthetic",
        "tiny, synthetic-words",
        "tiny, synthetic-pairs",
        new,
        "2% lost",
    ]
    rows = plots.one_head_tasks(found("figure1b"), {"others": np.zeros((2, 4))}).axes[0]
    names = [label.get_text().partition("\n")[0] for label in rows.get_yticklabels()]
    assert names == ["tiny, synthetic", new, "others"]
    titles = [axes.get_title() for axes in plots.domains_tasks(found("figure2b")).axes]
    assert [title.partition("; ")[0] for title in titles] == ["tiny, synthetic", new]
    speed = found("table4")
    assert new in legend(plots.table4(speed.pop("tiny, synthetic").values, speed).axes[0])


def twelve(result, task):
    """The result as if its model had twelve layers."""
    layers = [{**result.values["layers"][i % 2], "layer": i} for i in range(12)]
    return dataclasses.replace(result, task=task, values={**result.values, "layers": layers})


def test_layers_of_a_new_task_stand_beside_the_papers_twelve(found):
    table3, table6 = (found(name)["tiny, synthetic"] for name in ("table3", "table6"))
    figure = plots.layers_tasks(
        collect([table3, twelve(table3, "new-task")]),
        collect([twelve(table6, "new-task"), twelve(table6, "sst2")]),
    )
    published = "the paper (BERT-base, MNLI)"
    shown = [
        [label for label in legend(axes) if not label.startswith("a loss of")]
        for axes in figure.axes
    ]
    assert shown == [
        [published, "tiny, new-task"],  # two layers cannot stand beside twelve
        [published, "tiny, new-task", "tiny, SST-2"],
    ]


def test_a_task_has_one_colour_and_a_model_one_kind_of_line(smoke):
    one = measurements.get("figure3b", smoke)
    curves = collect(
        [
            dataclasses.replace(one, model=model, task=task)
            for model in ("mpnet", "minilm")
            for task in ("snli", "mnli", "new-task")
        ]
    )
    axes = plots.pruned_tasks(curves).axes[0]
    lines = {line.get_label(): line for line in axes.get_lines()}
    colours = {
        task: {lines[f"{model}, {task}"].get_color() for model in ("MPNet", "MiniLM")}
        for task in ("SNLI", "MNLI", "new-task")
    }
    assert all(len(own) == 1 for own in colours.values())
    assert len(set.union(*colours.values())) == 3
    assert {lines[f"MPNet, {task}"].get_linestyle() for task in colours} == {"-"}
    assert {lines[f"MiniLM, {task}"].get_linestyle() for task in colours} == {"--"}


def test_without_a_result_a_figure_says_so():
    assert said(plots.domains_tasks({})) == "not measured"
    assert said(plots.figure3b(None, "sst2")) == "not measured"


def test_a_task_without_other_domains_has_no_figure_of_them(smoke):
    figure2b = measurements.get("figure2b", smoke)
    assert said(plots.figure2b({**figure2b.values, "correlations": {}})) == "not measured"
