"""Tables over models and tasks, from results of the profile ``smoke``."""

import dataclasses

import numpy as np
import pytest

from headprune_lib.heads import KINDS
from headprune_lib.replication import measurements
from headprune_lib.replication.pages import tables
from headprune_lib.replication.pages.page import collect
from headprune_lib.replication.pages.values import raw_importance
from headprune_lib.replication.titles import order_title


@pytest.fixture
def found(smoke):
    """Name -> result of some measurements, and of each a made-up model's on a task nobody lists."""

    def collected(*names):
        stored = [measurements.get(name, smoke) for name in names]
        added = dataclasses.replace(stored[0], model="new-model", task="new-task")
        return collect([*stored, added])

    return collected


def test_a_new_task_is_in_every_table(found):
    curves = found("figure3b", "figure6b", "figure6c")
    names = [
        "tiny, synthetic",
        "tiny, synthetic-words",
        "tiny, synthetic-pairs",
        "new-model, new-task",
    ]
    assert list(curves) == names
    assert tables.scores_table(curves)["model and task"].tolist() == names
    assert tables.tasks_table(curves)["model and task"].tolist() == names
    assert tables.tasks_table(curves)["the paper"].tolist() == ["–"] * 4
    for table, name in (
        (tables.heads_tasks_table, "figure1b"),
        (tables.agreement_tasks_table, "agreement"),
    ):
        assert table(found(name))["model and task"].tolist() == [names[0], names[3]]
    domains = tables.side_by_side(tables.domains_table, found("figure2b"))
    assert list(dict.fromkeys(domains["model and task"])) == [names[0], names[3]]


def test_a_new_task_is_compared_with_the_others_of_its_model(smoke):
    one = measurements.get("figure3b", smoke)
    curves = collect(
        [
            one,
            dataclasses.replace(one, task="new-task"),
            dataclasses.replace(one, model="new-model"),
        ]
    )
    table = tables.importance_across_tasks(curves)
    assert table["tasks"].tolist() == ["synthetic, new-task"]
    assert table.iloc[0, 2] == "1.00 [1.00, 1.00]"
    assert table.iloc[0, 3] == "1 of 1"  # of eight heads


def test_one_fine_tuning_is_not_compared_with_itself(smoke):
    one = measurements.get("figure3b", smoke)
    tasks = ("snli", "snli-held", "cola")  # the first two are measured with the same models
    curves = collect([dataclasses.replace(one, task=task) for task in tasks])
    compared = tables.importance_across_tasks(curves)["tasks"].tolist()
    assert compared == ["SNLI, CoLA"]


def test_the_one_by_one_order_is_shown_where_it_was_measured(found):
    curves = found("figure3b", "figure6b")
    column = tables.tasks_table(curves)["one-by-one order (other text), 2%"].tolist()
    share = curves["tiny, synthetic"].values["prunable"]["oracle leak-free"]["2%"]["share"]
    assert column == [f"{share:.0%}", "–", f"{share:.0%}"]


def test_rows_hold_the_results_own_numbers(found):
    curves = found("figure3b", "figure6b", "figure6c")
    scores = tables.scores_table(curves)["score"].tolist()
    assert scores == ["accuracy", "matthews", "f1", "accuracy"]
    for result, row in zip(
        curves.values(), tables.tasks_table(curves).to_dict("records"), strict=True
    ):
        mean, chance = result.values["curves"]["importance"]["mean"], result.values["chance"]
        assert row["removed"] == "40%"  # as on MNLI: the paper has none of these texts
        kept = (mean[4] - chance) / (mean[0] - chance) if mean[0] > chance else None
        shown = row["kept there (95% interval)"]
        assert shown == "not above chance" or shown.startswith(f"{kept:.1%} [")
        for tolerance in ("1%", "2%", "5%"):
            share = result.values["prunable"]["importance"][tolerance]["share"]
            assert row[f"goes at {tolerance} loss"].startswith(f"{share:.0%} [")
    one_head = found("figure1b")
    cell = tables.heads_tasks_table(one_head)["heads removable"][0]
    assert cell == f"{one_head['tiny, synthetic'].values['counts']['removable']} of 8"
    power = one_head["tiny, synthetic"].values["removable"]["power"]
    assert tables.heads_tasks_table(one_head)["power"][0] == f"{power:.2f}"
    agreement = found("agreement")
    row = tables.agreement_tasks_table(agreement).to_dict("records")[0]
    mean = agreement["tiny, synthetic"].values["mean_spearman"]
    assert row["Spearman, mean"] == f"{mean:.2f}" and row["pairs of fine-tunings"] == 1


def test_importance_is_compared_between_tasks_of_one_model(found):
    curves = found("figure3b", "figure6b", "figure6c")
    table = tables.importance_across_tasks(curves)
    assert table["tasks"].tolist() == [
        "synthetic, synthetic-words",
        "synthetic, synthetic-pairs",
        "synthetic-words, synthetic-pairs",
    ]
    one, two = (
        raw_importance(curve) / np.linalg.norm(raw_importance(curve), axis=1, keepdims=True)
        for curve in list(curves.values())[:2]
    )
    ranks = [side.ravel().argsort().argsort() for side in (one, two)]
    assert table.iloc[0, 2].startswith(f"{np.corrcoef(*ranks)[0, 1]:.2f}")


def test_the_papers_share_stands_beside_its_task_and_the_one_that_stands_for_it(smoke):
    one = measurements.get("figure3b", smoke)
    tasks = {
        "sst2": "60%",
        "cola": "50%",
        "mrpc": "50%",
        "mnli": "40%",
        "snli": "40%",
        "snli-held": "40%",
        "reviews": "–",
    }
    curves = collect([dataclasses.replace(one, task=task) for task in tasks])
    table = tables.tasks_table(curves)
    assert table["the paper"].tolist() == list(tasks.values())
    judged = [*list(tasks.values())[:-1], "60%"]  # the reviews at SST-2's
    assert table["removed"].tolist() == judged


def test_what_is_kept_is_that_of_the_removed_share(smoke):
    one = measurements.get("figure3b", smoke)
    steps = [step / 10 for step in range(11)]
    kept = {"importance": {"kept": [1 - s for s in steps], "interval": [[s - 1, s] for s in steps]}}
    values = {**one.values, "shares": steps, "kept": kept}
    curves = collect([dataclasses.replace(one, task="sst2", values=values)])
    assert tables.tasks_table(curves)["kept there (95% interval)"].tolist() == [
        "40.0% [-40.0%, 60.0%]"
    ]


def test_orders_are_compared_over_the_first_half_and_over_everything(smoke):
    one = measurements.get("figure3b", smoke)
    table = tables.orders_table(one).set_index("order")
    for up_to, areas in (("50%", "early_area_differences"), ("100%", "area_differences")):
        column = table[f"importance minus this, mean over 0–{up_to} removed (points)"]
        assert column[order_title("importance")] == ""
        for order in ("oracle", "oracle leak-free", "importance unnormalised"):
            found = 100 * one.values[areas][order]["difference"]
            assert float(
                column[order_title(order)].partition(" [")[0].replace("−", "-")
            ) == pytest.approx(found, abs=0.006)


def test_kinds_are_compared_at_the_shares_that_the_rules_show(smoke):
    figure4 = measurements.get("figure4", smoke)
    table = tables.differences_table(figure4)
    assert table["removed"].tolist() == ["20%", "40%", "60%", "80%"]
    means = {kind: figure4.values["curves"][f"{kind} importance"]["mean"] for kind in KINDS}
    for other in ("enc-enc", "dec-dec"):
        for cell, step in zip(
            table[f"enc-dec minus {other} (95% interval)"], (2, 4, 6, 8), strict=True
        ):
            difference = means["enc-dec"][step] - means[other][step]
            shown = float(cell.partition(" [")[0].replace("−", "-"))
            assert shown == pytest.approx(difference, abs=0.006)


def test_without_results_tables_have_no_row():
    for table in (
        tables.scores_table,
        tables.tasks_table,
        tables.heads_tasks_table,
        tables.agreement_tasks_table,
        tables.importance_across_tasks,
    ):
        assert table({}).empty
    assert tables.side_by_side(tables.domains_table, {}).empty
    assert tables.orders_table(None).empty
