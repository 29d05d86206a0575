"""Tables and figures over several models and tasks, from results of the profile ``smoke``."""

import numpy as np
import pytest

from headprune_lib import comparison, experiments, plots
from headprune_lib.comparison import tasks


@pytest.fixture
def measured(smoke, monkeypatch):
    for artifact in ("figure1b", "figure2b", "figure3b", "figure6b", "figure6c", "table6",
                     "agreement", "table4"):
        experiments.get(artifact, smoke)
    monkeypatch.setattr(tasks, "_TASKS", {"smoke": (None, "synthetic", "synthetic-pairs")})


def test_each_stored_result_is_listed_once(measured):
    found = comparison.on_tasks("figure3b", "figure6b", "figure6c")
    assert [(one.artifact, one.task) for one in found] == [
        ("figure3b", "synthetic"), ("figure6b", "synthetic-words"), ("figure6c", "synthetic-pairs")]
    assert comparison.on_tasks("table5") == []


def test_tables_have_a_row_for_each_model_and_task(measured):
    curves = comparison.pruned_tasks()
    assert comparison.scores_table(curves)["score"].tolist() == ["accuracy", "matthews", "f1"]
    for result, row in zip(curves, comparison.tasks_table(curves).to_dict("records"), strict=True):
        mean, chance = result.values["curves"]["importance"]["mean"], result.values["chance"]
        assert row["kept at 40%"] == f"{(mean[4] - chance) / (mean[0] - chance):.1%}"
        assert row["model and task"] == f"tiny, {result.task}"
    one_head, = comparison.on_tasks("figure1b")
    cell, = comparison.heads_tasks_table([one_head])["heads removable"]
    assert cell == f"{one_head.values['counts']['removable']} of 8"
    domains = comparison.side_by_side(comparison.domains_table, comparison.on_tasks("figure2b"))
    assert set(domains["model and task"]) == {"tiny, synthetic"}
    agreement, = comparison.on_tasks("agreement")
    row, = comparison.agreement_tasks_table([agreement]).to_dict("records")
    assert row["Spearman, mean"] == f"{agreement.values['mean_spearman']:.2f}"
    assert row["pairs of fine-tunings"] == 1


def test_importance_is_compared_between_tasks_of_one_model(measured):
    curves = comparison.pruned_tasks()
    table = comparison.importance_across_tasks(curves)
    assert table["tasks"].tolist() == ["synthetic, synthetic-words", "synthetic, synthetic-pairs",
                                       "synthetic-words, synthetic-pairs"]
    one, two = (curve.raw["scores"] / np.linalg.norm(curve.raw["scores"], axis=1, keepdims=True)
                for curve in curves[:2])
    ranks = [side.ravel().argsort().argsort() for side in (one, two)]
    assert table.iloc[0, 2].startswith(f"{np.corrcoef(*ranks)[0, 1]:.2f}")


def test_figures_show_every_model_and_task(measured):
    curves = comparison.pruned_tasks()
    legend = plots.pruned_tasks(curves).axes[0].get_legend_handles_labels()[1]
    assert {"tiny, synthetic", "tiny, synthetic-words", "tiny, synthetic-pairs"} <= set(legend)
    heads = comparison.on_tasks("figure1b")
    names = [label.get_text() for label in
             plots.one_head_tasks(heads, {"others": np.zeros((2, 4))}).axes[0].get_yticklabels()]
    assert len(names) == 2
    layers = plots.layers_tasks(comparison.on_tasks("table3"), comparison.on_tasks("table6"))
    assert [axes.get_legend_handles_labels()[1] for axes in layers.axes] == [
        ["the paper (BERT-base, MNLI)", "within 1 point", "tiny, synthetic"]] * 2
    domains = comparison.on_tasks("figure2b")
    assert len(plots.domains_tasks(domains).axes) == len(domains[0].values["correlations"])
    speed, = comparison.on_tasks("table4")
    shown = plots.table4(speed.values, {"another": speed.values}).axes[0]
    assert "another" in shown.get_legend_handles_labels()[1]
