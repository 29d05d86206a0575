"""Tables and figures of orders by every criterion."""

import dataclasses

import matplotlib.pyplot as plt
import pytest

from headprune_lib.replication import measurements
from headprune_lib.replication.claims.contrasts import FAMILY, decide
from headprune_lib.replication.pages import plots, tables
from headprune_lib.replication.pages.leaderboard import leaderboard_rows
from headprune_lib.replication.pages.plots.orders import looks


@pytest.fixture(scope="module")
def found(smoke):
    """As if the tiny model, whose weights are random, were above chance."""
    result = measurements.get("which_first", smoke)
    return dataclasses.replace(result, values={**result.values, "least_above_chance": 0.1})


def test_what_is_not_above_chance_is_said_and_ordered_by_its_loss(found):
    below = dataclasses.replace(found, values={**found.values, "least_above_chance": -0.1})
    shown = tables.leaderboard({"tiny": below})
    assert set(shown["kept, mean over 0 to 50% removed"]) == {"not above chance"}
    rows = leaderboard_rows({"tiny": below})
    losses = [row["added_loss"] for row in rows]
    assert losses == sorted(losses) and {row["above_chance"] for row in rows} == {False}
    by_model = tables.contrasts_by_model({"tiny": below, "other": found})
    assert by_model["entropy against random"][0] == "not above chance"
    assert by_model["entropy against random"][1] != "not above chance"


def test_the_leaderboard_has_every_order_the_best_first(found, smoke):
    shown = tables.leaderboard({"tiny, synthetic": found})
    assert len(shown) == len(smoke.compared)
    areas = {
        look.label: found.values["orders"][name]["area"]["value"]
        for name, look in looks(found.values["orders"]).items()
    }
    values = [areas[label] for label in shown["order"]]
    assert values == sorted(values, reverse=True)
    first = shown.iloc[0]
    assert first["kept, mean over 0 to 50% removed"].startswith(f"{values[0]:.1%} [")
    costs = [row["cost"] for row in leaderboard_rows({"tiny, synthetic": found})]
    assert costs.count("a forward pass, eager") == 2


def test_contrasts_are_rows_and_what_was_not_run_is_none(found):
    shown = tables.contrasts_table(decide({"synthetic": found.values}))
    assert shown["contrast"].tolist() == list(FAMILY)
    assert shown["above its control (points)"].tolist()[1:] == ["", "", ""]
    assert tables.contrasts_table(decide({})).empty


def test_names_say_what_is_done_to_scores():
    labels = {
        name: look.label for name, look in looks(["entropy words", "fisher rescored"]).items()
    }
    assert labels == {
        "entropy words": "attention entropy, high kept, without special tokens",
        "fisher rescored": "Fisher information, scored again after each step",
    }


def test_curves_have_a_line_an_order_and_the_control_ends_in_the_middle(found):
    orders = ["importance", "importance-entropy shuffled", "not there"]
    figure = plots.curves_of_orders({"tiny": found.values}, orders)
    (axes,) = figure.axes
    lengths = {line.get_label(): len(line.get_xdata()) for line in axes.get_lines()}
    assert sorted(lengths.values()) == [11, 16]
    assert max(axes.get_lines()[0].get_xdata()) == 100
    plt.close(figure)


def test_a_model_not_above_chance_has_a_panel_only_where_there_is_no_other(found):
    below = {**found.values, "least_above_chance": -0.1}
    for shown, titles in (
        ({"fine": found.values, "below": below}, ["fine"]),
        ({"below": below}, ["below"]),
    ):
        figure = plots.curves_of_orders(shown, ["importance"])
        assert [axes.get_title() for axes in figure.axes] == titles
        plt.close(figure)


def test_a_panel_ends_a_little_below_chance_whatever_a_curve_does(found):
    first = found.values["orders"]["importance"]
    deep = {**first, "kept": [1.0] + [-3.0] * (len(first["kept"]) - 1)}
    orders = {**found.values["orders"], "importance": deep}
    shown = {"one": found.values, "deep": {**found.values, "orders": orders}}
    figure = plots.curves_of_orders(shown, ["importance"])
    assert [axes.get_ylim()[0] for axes in figure.axes] == [-30, -30]
    plt.close(figure)


def test_areas_are_points_in_their_order(found, smoke):
    figure = plots.areas_of_orders(found.values)
    (axes,) = figure.axes
    assert len(axes.get_yticklabels()) == len(smoke.compared)
    dots = [line.get_xdata()[0] for line in axes.get_lines() if len(line.get_xdata()) == 1]
    assert dots == sorted(dots)
    plt.close(figure)
