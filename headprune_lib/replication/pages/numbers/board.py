"""The numbers in the prose of the page with every order that was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headprune_lib.replication.claims.contrasts import above_chance
from headprune_lib.replication.order_names import parse_part
from headprune_lib.replication.pages.leaderboard import leaderboard_rows
from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.tables.pages import NOT_MEASURED, estimate
from headprune_lib.replication.published_masks import STEP, masked_tasks
from headprune_lib.replication.published_orders import PublishedOrder, published_orders
from headprune_lib.replication.store import Result
from headprune_lib.replication.titles import listed


def board(found: Mapping[str, Result]) -> Numbers:
    """What the best and the usual orders keep, on the model with most orders, and others' curves.

    Args:
        found: name of task and model -> result of ``which_first``.
    """
    where = max(found, key=lambda name: len(found[name].values["orders"]))
    by_order = {row["order"]: row for row in leaderboard_rows({where: found[where]})}
    firsts = {
        name: _plain_rows(name, result)[0]
        for name, result in found.items()
        if above_chance(result.values)
    }
    plain = [row["order"] == "importance unnormalised" for row in firsts.values()]
    numbers: Numbers = {
        "where": where,
        "n_orders": len(_plain_rows(where, found[where])),
        "bests": "; ".join(f"{row['title']} ({name})" for name, row in firsts.items()) or "none",
        "n_unnormalised_first": sum(plain),
        "n_compared": len(plain),
    }
    for order in (
        *("importance", "importance tuned", "logits-norm", "magnitude", "entropy", "random"),
    ):
        key = f"kept_{order.replace(' ', '_').replace('-', '_')}"
        numbers[key] = _kept(by_order[order]) if order in by_order else NOT_MEASURED
    for key, wanted in (
        ("others_importance", ("Silent-Zebra", "importance")),
        ("others_combined", ("HIES 2025", "importance and entropy")),
        ("others_hies_importance", ("HIES 2025", "importance")),
    ):
        numbers[key] = listed([f"{_published(task, wanted).area:.1%}" for task in ("mnli", "sst2")])
    return numbers | _masked()


def _masked() -> Numbers:
    """How many heads others masked in BERT-base, and how far importance is ahead of random masks."""
    tasks = {task.task: task for task in masked_tasks() if task.above_chance}
    numbers: Numbers = {"masked_step": STEP}
    for name, choose in (("fewest", min), ("most", max)):
        task = choose(tasks.values(), key=lambda one: one.removed.mean())
        numbers[f"masked_{name}"] = f"{task.removed.mean():.0f} ({task.task})"
    numbers["masked_apart"] = max(int(np.ptp(task.removed)) for task in tasks.values())
    for name, suffix in (("before", ""), ("after", "_retrained")):
        leads = [task.ahead_of_random(suffix) for task in tasks.values()]
        ends = [f"{100 * choose(leads)[0]:.1f}".replace("-", "−") for choose in (min, max)]
        numbers[f"masked_{name}"] = " to ".join(ends)
        clear = [task for task, lead in zip(tasks, leads, strict=True) if lead[1] > 0]
        numbers[f"masked_clear_{name}"] = listed(clear) or "none"
    sentiment = tasks["SST-2"]
    numbers["masked_inverted"] = f"{sentiment.removed.mean():.0f}"
    numbers["masked_kept"] = f"{(sentiment.heads - sentiment.removed).mean():.0f}"
    return numbers


def _plain_rows(where: str, result: Result) -> list[dict[str, Any]]:
    """The rows of orders without fitted gates, which stand in a column of their own."""
    return [
        row
        for row in leaderboard_rows({where: result})
        if not parse_part(row["order"], "tuned").tuned
    ]


def _kept(row: Mapping[str, Any]) -> str:
    return estimate(row["area"], [row["area_low"], row["area_high"]], ".1%")


def _published(task: str, wanted: tuple[str, str]) -> PublishedOrder:
    (found,) = [
        one for one in published_orders() if one.task == task and (one.who, one.order) == wanted
    ]
    return found
