"""Write the leaderboard of orders of removal as JSON and CSV, one row an order of a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from headprune_lib.criteria import CRITERIA
from headprune_lib.replication.claims.questions import above_chance
from headprune_lib.replication.criteria import shown
from headprune_lib.replication.store import Result, plain
from headprune_lib.replication.titles import order_title

LEADERBOARD = "book/static/leaderboard"
"""Path below the checkout, without the ending."""


def leaderboard_rows(found: Mapping[str, Result]) -> list[dict[str, Any]]:
    """What is known of every order on every model, the order that keeps most first.

    ``area`` is the share of the metric above chance that is kept, mean over 0 to 50% of the heads
    removed, and ``added_loss`` what the loss grows by, in nats; both with their 95% interval. Where
    the uncut model is not ``above_chance`` in every resample, the share says nothing, and the order
    that adds least loss comes first.
    """
    rows = []
    for name, result in found.items():
        orders, comparable = result.values["orders"], above_chance(result.values)
        for order in sorted(orders, key=lambda one: _rank(orders[one], comparable)):
            one, criterion = orders[order], order.partition(" ")[0]
            rows.append(
                {
                    "measured_on": name,
                    "task": result.task,
                    "model": result.model,
                    "order": order,
                    "title": order_title(order),
                    "above_chance": comparable,
                    "area": one["area"]["value"],
                    "area_low": one["area"]["interval"][0],
                    "area_high": one["area"]["interval"][1],
                    "added_loss": one["added_loss"]["value"],
                    "added_loss_low": one["added_loss"]["interval"][0],
                    "added_loss_high": one["added_loss"]["interval"][1],
                    "texts": result.n_examples,
                    "trainings": len(one["trainings"]),
                    "cost": shown(criterion).cost if criterion in CRITERIA else "",
                }
            )
    return rows


def _rank(order: Mapping[str, Any], comparable: bool) -> float:
    return -order["area"]["value"] if comparable else order["added_loss"]["value"]


def leaderboard_files(found: Mapping[str, Result]) -> dict[str, bytes]:
    """Path below the checkout -> content."""
    rows = plain(leaderboard_rows(found))
    return {
        f"{LEADERBOARD}.json": (json.dumps(rows, indent=1) + "\n").encode(),
        f"{LEADERBOARD}.csv": pd.DataFrame(rows).to_csv(index=False).encode(),
    }
