"""Curves of orders by several criteria, and what their areas say beside each other."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from headprune_lib.replication.bounds import ORDERS_UP_TO
from headprune_lib.replication.claims.questions import above_chance
from headprune_lib.replication.pages.plots.orders import looks
from headprune_lib.replication.pages.plots.style import (
    BLUE,
    GREY,
    WIDE,
    Layout,
    below,
    style,
)

__all__ = ["areas_of_orders", "curves_of_orders"]


_LOWEST = -30
"""Share kept (%) at which a panel ends."""


def curves_of_orders(
    shown: Mapping[str, dict], orders: Sequence[str], layout: Layout = WIDE
) -> Figure:
    """What is kept of the metric above chance, a panel a task, a line an order.

    A task whose uncut model is not above chance has no panel, unless there is no other. What is kept
    of a score that is hardly above chance can be many times below 0: panels end a little below it.

    Args:
        shown: name of task and model -> values of ``which_first``.
        orders: which lines; those that a result does not have are left out of its panel.
    """
    shown = {name: one for name, one in shown.items() if above_chance(one)} or shown
    with style():
        figure, panels = layout.panels(len(shown), 330, columns=2, sharey=True)
        for axes, (title, values) in zip(panels, shown.items(), strict=True):
            for name, look in looks([o for o in orders if o in values["orders"]]).items():
                kept = 100 * np.array(values["orders"][name]["kept"])
                shares = 100 * np.array(values["shares"])[: len(kept)]
                axes.plot(
                    shares, kept, look.line, color=look.colour, label=look.label, markersize=4
                )
            axes.axvspan(0, 100 * ORDERS_UP_TO, color=GREY, alpha=0.12, linewidth=0)
            axes.set(title=title, xlabel="heads removed (%)", xlim=(0, 100))
        if panels[0].get_ylim()[0] < _LOWEST:
            panels[0].set_ylim(bottom=_LOWEST)
        for axes in panels[:: layout.columns]:
            axes.set_ylabel("kept above chance (%)")
        below(figure, layout)
    return figure


def areas_of_orders(values: Mapping[str, Any], layout: Layout = WIDE) -> Figure:
    """The share kept, mean over 0 to 50% removed, with its interval: best at the top."""
    orders = sorted(values["orders"], key=lambda name: values["orders"][name]["area"]["value"])
    named = looks(orders)
    wide = layout.columns > 1
    with style():
        figure, axes = plt.subplots(figsize=layout.canvas((24 if wide else 58) * len(orders) + 70))
        for row, name in enumerate(orders):
            area = values["orders"][name]["area"]
            low, high = (100 * end for end in area["interval"])
            colour = BLUE if name == "importance" else GREY
            axes.plot([low, high], [row, row], "-", color=colour, linewidth=2)
            axes.scatter([100 * area["value"]], [row], color=colour, label=named[name].label)
        axes.set(
            yticks=range(len(orders)),
            yticklabels=[
                named[name].label if wide else textwrap.fill(named[name].label, 18)
                for name in orders
            ],
            xlabel="kept above chance, mean over 0 to 50% removed (%)"
            if wide
            else "kept above chance (%)",
        )
        figure.tight_layout()
    return figure
