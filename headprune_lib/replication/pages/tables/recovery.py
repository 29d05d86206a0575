"""Tables of training after the cut: what is left before and after it, and an order's lead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from headprune_lib.replication.pages.tables.pages import estimate, points, signed
from headprune_lib.replication.titles import order_title

__all__ = ["leads_table", "trained_again_table"]

_WHEN = ("before", "after")


def leads_table(values: Mapping[str, Any]) -> pd.DataFrame:
    """One row an order, share and way of training: what it has more than random orders.

    Args:
        values: those of ``recovery``.
    """
    return pd.DataFrame(
        [
            {
                "order": order_title(one["order"]),
                "removed": f"{one['share']:.0%}",
                "trained": one["way"],
                **{
                    f"lead {when} training (points)": points(
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


def trained_again_table(values: Mapping[str, Any]) -> pd.DataFrame:
    """One row an order, share and way of training: parameters left, accuracy and loss, minutes."""
    return pd.DataFrame(
        [
            {
                "order": order_title(one["order"]),
                "removed": f"{one['removed']} ({one['share']:.0%})",
                "trained": one["way"],
                "parameters (millions)": f"{one['left'] / 1e6:.2f}",
                "accuracy before": estimate(
                    one["before"]["score"], one["before"]["interval"], ".1%"
                ),
                "accuracy after": estimate(one["after"]["score"], one["after"]["interval"], ".1%"),
                "kept above chance, after": estimate(
                    one["after"]["kept"], one["after"]["kept_interval"], ".0%"
                ),
                "loss before": f"{one['before']['loss']:.3f}",
                "loss after": f"{one['after']['loss']:.3f}",
                "minutes": f"{one['seconds'] / 60:.1f}",
            }
            for one in values["recovered"]
        ]
    )
