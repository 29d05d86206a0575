"""Tables of training after the cut: what is left before and after it, and an order's lead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from headprune_lib.replication.pages.tables.pages import estimate, points, signed
from headprune_lib.replication.titles import order_title

__all__ = ["leads_table", "trained_again_table"]

_WHEN = ("before", "after")
_UNITS = {"accuracy": "points", "BLEU": "BLEU"}
"""Of a lead, by the metric of the result."""


def leads_table(values: Mapping[str, Any], metric: str = "accuracy") -> pd.DataFrame:
    """One row an order, share and way of training: what it has more than random orders.

    Args:
        values: those of ``recovery``.
        metric: of that result.
    """
    return pd.DataFrame(
        [
            {
                "order": order_title(one["order"]),
                "removed": f"{one['share']:.0%}",
                "trained": one["way"],
                **{
                    f"lead {when} training ({_UNITS[metric]})": points(
                        one[when]["difference"], one[when]["interval"]
                    )
                    for when in _WHEN
                },
                **{
                    f"loss beside random's, {when} (nats)": signed(
                        one[f"loss_{when}"]["difference"], one[f"loss_{when}"]["interval"], ".3f"
                    )
                    for when in _WHEN
                },
            }
            for one in values["leads"]
        ]
    )


def trained_again_table(values: Mapping[str, Any], metric: str = "accuracy") -> pd.DataFrame:
    """One row an order, share and way of training: parameters left, score and loss, minutes."""
    kept = "kept, after" if metric == "BLEU" else "kept above chance, after"
    return pd.DataFrame(
        [
            {
                "order": order_title(one["order"]),
                "removed": f"{one['removed']} ({one['share']:.0%})",
                "trained": one["way"],
                "parameters (millions)": f"{one['left'] / 1e6:.2f}",
                **{f"{metric} {when}": score_text(one[when], metric) for when in _WHEN},
                kept: estimate(one["after"]["kept"], one["after"]["kept_interval"], ".0%"),
                "loss before": f"{one['before']['loss']:.3f}",
                "loss after": f"{one['after']['loss']:.3f}",
                "minutes": f"{one['seconds'] / 60:.1f}",
            }
            for one in values["recovered"]
        ]
    )


def score_text(state: Mapping[str, Any], metric: str) -> str:
    """A score with its interval: accuracy in percent, BLEU from 0 to 100."""
    if metric != "BLEU":
        return estimate(state["score"], state["interval"], ".1%")
    return estimate(100 * state["score"], [100 * end for end in state["interval"]], ".1f")
