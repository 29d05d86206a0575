"""Every order of removal is drawn, the new ones too."""

import dataclasses

import matplotlib.pyplot as plt
import pytest

from headprune_lib.criteria import CRITERIA
from headprune_lib.replication import measurements
from headprune_lib.replication.pages import plots
from headprune_lib.replication.pages.plots.orders import LOOKS, looks


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def test_known_orders_come_in_the_order_of_the_legend():
    assert list(looks(["random", "new", "importance"])) == ["importance", "random", "new"]
    assert looks(["new"])["new"].label == "new"


def test_a_criterion_looks_as_its_file_says():
    found = looks(["fisher unnormalised", "fisher", "importance"])
    assert list(found) == ["importance", "fisher unnormalised", "fisher"]
    assert found["fisher"].label == CRITERIA["fisher"].label
    assert found["fisher unnormalised"].label == "Fisher information, not normalised"
    assert found["fisher unnormalised"].colour == found["fisher"].colour


def test_an_order_with_gates_fitted_is_the_order_itself_with_diamonds():
    found = looks(["importance tuned", "fisher tuned", "learned tuned"])
    for name, look in found.items():
        plain = looks([name.removesuffix(" tuned")])[name.removesuffix(" tuned")]
        assert look.label == f"{plain.label}, gates fitted" and look.colour == plain.colour
        assert look.line == f"D{plain.line.lstrip('os^')}"


def test_no_two_orders_look_alike():
    every = looks({*LOOKS, *CRITERIA}).values()
    assert len({(look.colour, look.line) for look in every}) == len(every)


@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("figure3b", lambda result: plots.figure3b(result.values, "sst2")),
        ("figure3a", lambda result: plots.figure3a({"toy": result})),
    ],
)
def test_a_new_order_is_drawn_under_its_own_name(smoke, name, draw):
    result = measurements.get(name, smoke)
    values = {
        **result.values,
        "curves": {**result.values["curves"], "new": result.values["curves"]["oracle"]},
        "prunable": {**result.values["prunable"], "new": result.values["prunable"]["oracle"]},
    }
    labels = draw(dataclasses.replace(result, values=values)).axes[0].get_legend_handles_labels()[1]
    labels = [label for label in labels if not label.startswith(("the paper", "chance"))]
    assert labels[-1] == "new"
    assert {label.partition(" (mean of")[0] for label in labels[:-1]} == {
        LOOKS[order].label for order in values["curves"] if order != "new"
    }


def test_the_papers_share_is_marked_at_the_task(smoke):
    values = measurements.get("figure3b", smoke).values
    for task, share, name in (
        ("sst2", 60, "SST-2"),
        ("snli", 40, "MNLI"),
        ("reviews", 60, "SST-2"),
    ):
        axes = plots.figure3b(values, task).axes[0]
        marks = {
            line.get_label(): line.get_xdata()[0]
            for line in axes.get_lines()
            if len(set(line.get_xdata())) == 1
        }
        assert marks == {f"the paper, {name}: level up to {share}%": pytest.approx(share)}
