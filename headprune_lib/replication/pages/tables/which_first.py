"""Tables of orders by every criterion: the leaderboard of a task, and the contrasts over all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from headprune_lib.replication.bench import SCORES_BY, read_runs
from headprune_lib.replication.claims.questions import Contrast, above_chance
from headprune_lib.replication.criteria import shown
from headprune_lib.replication.measurements.contrasts import CONTRASTS
from headprune_lib.replication.order_names import parse_part
from headprune_lib.replication.pages.leaderboard import leaderboard_rows
from headprune_lib.replication.pages.tables.pages import (
    NOT_ABOVE_CHANCE,
    NOT_MEASURED,
    estimate,
    p_text,
    signed,
)
from headprune_lib.replication.store.results import Result

__all__ = [
    "contrasts_by_model",
    "contrasts_table",
    "costs_of_criteria",
    "leaderboard",
    "once_or_again",
]


def leaderboard(found: Mapping[str, Result]) -> pd.DataFrame:
    """One row an order of a task, the one that keeps most first; a column for fitted gates.

    Args:
        found: name of task and model -> result of ``which_first``.
    """
    rows = leaderboard_rows(found)
    fitted = {
        (row["measured_on"], parse_part(row["order"], "tuned").order): _interval(row, "area", ".1%")
        for row in rows
        if parse_part(row["order"], "tuned").tuned
    }
    table = pd.DataFrame(
        [
            {
                "measured on": row["measured_on"],
                "order": row["title"],
                "kept, mean over 0 to 50% removed": _interval(row, "area", ".1%")
                if row["above_chance"]
                else NOT_ABOVE_CHANCE,
                "loss added (nats)": _interval(row, "added_loss", ".3f"),
                "trainings": row["trainings"],
                **(
                    {"kept, gates fitted": fitted.get((row["measured_on"], row["order"]), "")}
                    if fitted
                    else {}
                ),
            }
            for row in rows
            if not parse_part(row["order"], "tuned").tuned
        ]
    )
    table.attrs["prose"] = True  # two columns of words
    return table


def once_or_again(found: Mapping[str, Result]) -> pd.DataFrame:
    """Absolute value of each example's derivative or of a batch's, scored once or at each step.

    One row a model that has all four orders.

    Args:
        found: name of task and model -> result of ``which_first``.
    """
    ways = {
        f"{whose}, {when}": order
        for criterion, whose in (("importance", "an example's"), ("importance-batch", "a batch's"))
        for when, order in (("once", criterion), ("again", f"{criterion} rescored"))
    }
    return pd.DataFrame(
        [
            {"measured on": where}
            | {
                way: estimate(one["area"]["value"], one["area"]["interval"], ".1%")
                for way, order in ways.items()
                if (one := result.values["orders"][order])
            }
            for where, result in found.items()
            if {*ways.values()} <= {*result.values["orders"]}
        ]
    )


def costs_of_criteria(path: Path) -> pd.DataFrame:
    """Forward passes over the same text that scores by each criterion take, the cheapest first.

    Args:
        path: what ``headprune bench criteria`` stored; empty if there is nothing.
    """
    if not (runs := read_runs(path)):
        return pd.DataFrame()
    rows = runs[0]["rows"]
    named = {row["what"].removeprefix(SCORES_BY): row["ratio"] for row in rows}
    table = pd.DataFrame(
        [
            {
                "criterion": shown(name).label,
                "what it computes": shown(name).cost,
                "forward passes": f"{ratio:,.1f}" if ratio < 100 else f"{ratio:,.0f}",
            }
            for name, ratio in sorted(named.items(), key=lambda item: item[1])
        ]
    )
    table.attrs["prose"] = True
    return table


def _interval(row: Mapping[str, Any], name: str, form: str) -> str:
    return estimate(row[name], [row[f"{name}_low"], row[f"{name}_high"]], form)


def contrasts_table(contrasts: Iterable[Contrast]) -> pd.DataFrame:
    """One row a contrast: the difference over all tasks, p, its word, and what stands beside it."""
    return pd.DataFrame(
        [
            {
                "contrast": one.name,
                "more kept (points)": _difference(one.value, one.interval, 100, ".1f"),
                "p (Holm)": p_text(one.p_holm),
                "word": one.word,
                "less loss added (nats)": _triple(one.loss, 1, ".4f"),
                "above its control (points)": _triple(one.control, 100, ".1f"),
                "models": len(one.tasks),
            }
            for one in contrasts
            if one.word != "not run"
        ]
    )


def contrasts_by_model(found: Mapping[str, Result]) -> pd.DataFrame:
    """One row a model, one column a contrast: the difference of areas in points."""
    return pd.DataFrame(
        [
            {"measured on": where} | {name: _of_model(result.values, name) for name in CONTRASTS}
            for where, result in found.items()
        ]
    )


def _of_model(values: Mapping[str, Any], name: str) -> str:
    if (one := values["contrasts"].get(name)) is None:
        return NOT_MEASURED
    if not above_chance(values):
        return NOT_ABOVE_CHANCE
    return _difference(one["area"]["value"], one["area"]["interval"], 100, ".1f")


def _difference(value: float, interval: Iterable[float], scale: float, form: str) -> str:
    return signed(scale * value, [scale * end for end in interval], form)


def _triple(found: tuple[float, float, float] | None, scale: float, form: str) -> str:
    return "" if found is None else _difference(found[0], found[1:], scale, form)
