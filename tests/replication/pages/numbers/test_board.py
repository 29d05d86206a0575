"""Page 13."""

import dataclasses

import pytest

from headprune_lib.replication.bench.stored import store_run
from headprune_lib.replication.pages import numbers, tables
from headprune_lib.replication.published_orders import published_orders
from headprune_lib.replication.titles import order_title

COSTS = {"greedy": 2592.4, "entropy": 1.26}


@pytest.fixture
def found(result):
    """As if the tiny model, whose weights are random, were above chance."""
    of = result("which_first")
    return {
        "tiny, synthetic": dataclasses.replace(of, values={**of.values, "least_above_chance": 0.1})
    }


def test_the_best_order_is_the_first_of_the_board(found):
    (of,) = found.values()
    told, shown = numbers.board(found), tables.leaderboard(found)
    assert told["n_orders"] == len(shown) == len(of.values["orders"])
    area = of.values["orders"]["random"]["area"]["value"]
    assert told["kept_random"].startswith(f"{area:.1%} [")
    assert told["kept_magnitude"] == "not measured"
    assert told["bests"] == f"{shown['order'][0]} (tiny, synthetic)"
    assert told["n_compared"] == 1


def test_a_model_that_is_not_above_chance_has_no_best_order(result):
    of = result("which_first")
    below = dataclasses.replace(of, values={**of.values, "least_above_chance": -0.1})
    told = numbers.board({"tiny, synthetic": below})
    assert (told["bests"], told["n_compared"], told["n_unnormalised_first"]) == ("none", 0, 0)


def test_fitted_gates_are_a_column_not_an_order(found):
    (of,) = found.values()
    orders = of.values["orders"]
    tuned = {"importance tuned": orders["random"]}
    full = {
        "tiny, synthetic": dataclasses.replace(of, values={**of.values, "orders": orders | tuned})
    }
    shown, told = tables.leaderboard(full), numbers.board(full)
    column = dict(zip(shown["order"], shown["kept, gates fitted"], strict=True))
    assert [order for order, kept in column.items() if kept] == [order_title("importance")]
    assert [kept for kept in column.values() if kept] == [told["kept_importance_tuned"]]
    assert told["n_orders"] == len(shown) == len(orders)
    assert told["kept_importance_tuned"] == told["kept_random"]


def test_others_are_told_on_both_tasks(found):
    of = {(one.who, one.order, one.task): one.area for one in published_orders()}
    told = numbers.board(found)["others_combined"]
    assert told == " and ".join(
        f"{of['HIES 2025', 'importance and entropy', task]:.1%}" for task in ("mnli", "sst2")
    )


def test_once_or_again_asks_for_all_four_orders(found):
    (of,) = found.values()
    assert tables.once_or_again(found).empty
    orders = of.values["orders"]
    both = dict.fromkeys(("importance-batch", "importance-batch rescored"), orders["importance"])
    full = dataclasses.replace(of, values=of.values | {"orders": orders | both})
    shown = tables.once_or_again({"tiny, synthetic": full})
    assert shown.columns.tolist()[1:] == [
        "an example's, once",
        "an example's, again",
        "a batch's, once",
        "a batch's, again",
    ]
    again = orders["importance rescored"]["area"]["value"]
    assert shown["an example's, again"][0].startswith(f"{again:.1%} [")


def test_costs_are_in_forward_passes_the_cheapest_first(tmp_path):
    path = tmp_path / "bench.criteria.json"
    assert tables.costs_of_criteria(path).empty
    rows = [{"what": f"scores by {name}", "ratio": ratio} for name, ratio in COSTS.items()]
    store_run(path, rows, {"date": "2026-11-24", "hardware": {"cpu": "x", "cores": 1, "gpu": None}})
    shown = tables.costs_of_criteria(path)
    assert shown["criterion"].tolist() == ["attention entropy, high kept", "greedy by the loss"]
    assert shown["forward passes"].tolist() == ["1.3", "2,592"]
