"""Tables of orders by every criterion: the leaderboard of a task, and the contrasts over all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from headprune_lib.criteria import CRITERIA
from headprune_lib.replication.claims.contrasts import Contrast
from headprune_lib.replication.pages.tables.pages import estimate, p_text, signed
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import order_title, spelled

__all__ = ["contrasts_table", "leaderboard"]


def leaderboard(found: Mapping[str, Result]) -> pd.DataFrame:
    """One row an order of a task, the one that keeps most first.

    Args:
        found: name of task and model -> result of ``which_first``.
    """
    rows = []
    for where, result in found.items():
        orders = result.values["orders"]
        for order in sorted(orders, key=lambda name: -orders[name]["area"]["value"]):
            one = orders[order]
            criterion = CRITERIA.get(order.partition(" ")[0])
            rows.append(
                {
                    "measured on": where,
                    "order": order_title(order),
                    "kept, mean over 0 to 50% removed": _share(one["area"]),
                    "loss added (nats)": estimate(
                        one["added_loss"]["value"], one["added_loss"]["interval"], ".3f"
                    ),
                    "cost": criterion.cost if criterion else "",
                }
            )
    return pd.DataFrame(rows)


def _share(found: Mapping) -> str:
    return estimate(found["value"], found["interval"], ".1%")


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
                "tasks": ", ".join(spelled(task) for task in one.tasks),
            }
            for one in contrasts
            if one.word != "not run"
        ]
    )


def _difference(value: float, interval: Iterable[float], scale: float, form: str) -> str:
    return signed(scale * value, [scale * end for end in interval], form)


def _triple(found: tuple[float, float, float] | None, scale: float, form: str) -> str:
    return "" if found is None else _difference(found[0], found[1:], scale, form)
