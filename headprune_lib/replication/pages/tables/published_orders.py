"""Tables of orders of removal that others measured, and of methods that train."""

from __future__ import annotations

import numpy as np
import pandas as pd

from headprune_lib.replication.bounds import ORDERS_UP_TO
from headprune_lib.replication.published import (
    five_seeds,
    published_orders,
    said_of_training,
    trained_methods,
)
from headprune_lib.replication.titles import spelled

__all__ = ["entropy_over_seeds", "others_board", "trained_board"]


def others_board() -> pd.DataFrame:
    """One row an order of a laboratory on a task, the one that keeps most first."""
    ordered = sorted(published_orders(), key=lambda one: (one.task, -one.area))
    return pd.DataFrame(
        [
            {
                "BERT-base on": spelled(one.task),
                "order": one.order,
                "measured by": one.who,
                "kept, mean over 0 to 50% removed": f"{one.area:.1%}",
                "kept at 50%": f"{np.interp(ORDERS_UP_TO, one.shares, one.kept):.1%}",
                "accuracy, all heads": f"{one.accuracy[0]:.2%}",
            }
            for one in ordered
        ]
    )


def entropy_over_seeds() -> pd.DataFrame:
    """One row a share removed: what entropy adds to importance in the mean of five fine-tunings."""
    return pd.DataFrame(
        [
            {
                "heads removed": f"{one['percent_removed']}%",
                "importance and entropy minus importance (points)": f"{one['points']:+.2f}".replace(
                    "-", "−"
                ),
            }
            for one in five_seeds()
        ]
    )


def trained_board() -> pd.DataFrame:
    """One row a size of a method that trains; then what others say without numbers a size."""
    rows = [
        {
            "who": method["who"],
            "heads left": f"{one['left']} of {method['heads']}",
            "result": f"{one['score']:.2f} {method['metric']} (all heads: {method['whole']:.1f})",
        }
        for method in trained_methods()
        for one in method["pruned"]
    ]
    rows += [
        {"who": one["who"], "heads left": "", "result": one["says"]} for one in said_of_training()
    ]
    return pd.DataFrame(rows)
