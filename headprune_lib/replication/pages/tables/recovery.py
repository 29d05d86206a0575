"""Tables of training after the cut: what is left before and after it, and an order's lead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from headprune_lib.replication.pages.tables.pages import points, signed
from headprune_lib.replication.titles import order_title

__all__ = ["leads_table"]

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
