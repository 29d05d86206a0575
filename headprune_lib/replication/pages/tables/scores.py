"""Tables of how far scores can be trusted."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats

from headprune_lib.replication.criteria import shown
from headprune_lib.replication.measurements.scores import CRITERIA, PLAIN
from headprune_lib.replication.order_names import read_name
from headprune_lib.replication.pages.tables.pages import (
    NOT_MEASURED,
    estimate,
    number,
    signed,
)
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import ROLES, order_title, spelled

__all__ = [
    "between_trainings",
    "known_of_heads_table",
    "roles_table",
    "stability_table",
]

NO_TEXT = "reads no text"


def _in_order(criteria: Mapping[str, Any]) -> dict[str, Any]:
    """As the measurement names them, then others: a file has them by their names."""
    known = {name: criteria[name] for name in CRITERIA if name in criteria}
    return {**known, **criteria}


def stability_table(stability: Result, agreement: Result | None) -> pd.DataFrame:
    """One row a criterion: rank correlation of its scores with those on other text, and of two
    fine-tunings in the mean.

    Args:
        agreement: scores of importance in several fine-tunings, if it was measured.
    """
    rows = []
    for name, found in _in_order(stability.values["criteria"]).items():
        reads = not shown(read_name(name).criterion.name).cost.startswith("none")
        row = {"criterion": order_title(name)}
        for domain, one in found["domains"].items():
            row[spelled(domain)] = estimate(one["r"], one["interval"]) if reads else NO_TEXT
        row["two fine-tunings"] = number(between_trainings(name, stability, agreement), ".2f")
        rows.append(row)
    return pd.DataFrame(rows)


def between_trainings(order: str, stability: Result, agreement: Result | None) -> float | None:
    """Mean rank correlation of a criterion's scores in two fine-tunings; None where there is one.

    Of importance other results hold the scores of all fine-tunings.
    """
    found = stability.values["criteria"][order]["mean_trainings"]
    if found is not None or agreement is None or order not in ("importance", PLAIN):
        return found
    if order == "importance":
        return agreement.values["mean_spearman"]
    flat = agreement.raw["scores"].reshape(len(agreement.raw["scores"]), -1)
    pairs = [scipy.stats.spearmanr(*pair).statistic for pair in itertools.combinations(flat, 2)]
    return float(np.mean(pairs)) if pairs else None


def known_of_heads_table(values: Mapping[str, Any]) -> pd.DataFrame:
    """One row a criterion: its rank correlation with the effect of a head's absence, and what is
    left of it with others held fixed.

    Args:
        values: those of ``stability``.
    """

    def cell(found: Mapping[str, Any] | None) -> str:
        if found is None:
            return ""
        return NOT_MEASURED if found["r"] is None else signed(found["r"], found["interval"])

    return pd.DataFrame(
        [
            {
                "criterion": order_title(name),
                "alone": cell(found["effect"]),
                "within layers": cell(found["given_layer"]),
                "within layers, importance held fixed": cell(found["given_both"]),
            }
            for name, found in _in_order(values["criteria"]).items()
            if found["effect"] is not None
        ]
    )


def roles_table(values: Mapping[str, Any]) -> pd.DataFrame:
    """One row a role: its rank correlation with the place in each order, the first to go first.

    Args:
        values: those of ``head_roles``.
    """

    def cell(found: Mapping[str, Any]) -> str:
        return NOT_MEASURED if found["r"] is None else signed(found["r"], found["interval"])

    return pd.DataFrame(
        [
            {"of a head": title}
            | {
                order_title(name): cell(one["ranks"][role])
                for name, one in values["orders"].items()
            }
            for role, title in ROLES.items()
        ]
    )
