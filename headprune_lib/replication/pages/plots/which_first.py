"""Curves of orders by several criteria, and what their areas say beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from headprune_lib.replication.measurements.contrasts import UP_TO
from headprune_lib.replication.pages.plots.orders import looks
from headprune_lib.replication.pages.plots.style import BLUE, GREY, style

__all__ = ["areas_of_orders", "curves_of_orders"]


def curves_of_orders(shown: Mapping[str, dict], orders: Sequence[str]) -> Figure:
    """What is kept of the metric above chance, a panel a task, a line an order.

    Args:
        shown: name of task and model -> values of ``which_first``.
        orders: which lines; those that a result does not have are left out of its panel.
    """
    with style():
        figure, panels = plt.subplots(
            1, len(shown), figsize=(4.6 * len(shown), 4.8), squeeze=False, sharey=True
        )
        for axes, (title, values) in zip(panels[0], shown.items(), strict=True):
            for name, look in looks([o for o in orders if o in values["orders"]]).items():
                kept = 100 * np.array(values["orders"][name]["kept"])
                shares = 100 * np.array(values["shares"])[: len(kept)]
                axes.plot(
                    shares, kept, look.line, color=look.colour, label=look.label, markersize=4
                )
            axes.axvspan(0, 100 * UP_TO, color=GREY, alpha=0.12, linewidth=0)
            axes.set(title=title, xlabel="heads removed (%)", xlim=(0, 100))
        panels[0][0].set_ylabel("kept of the score above chance (%)")
        shown_lines = {line.get_label(): line for axes in panels[0] for line in axes.get_lines()}
        figure.tight_layout(rect=(0, 0.04 * (len(shown_lines) + 1), 1, 1))
        figure.legend(
            shown_lines.values(), shown_lines.keys(), fontsize=10, loc="lower center", ncols=1
        )
    return figure


def areas_of_orders(values: Mapping[str, Any]) -> Figure:
    """The share kept, mean over 0 to 50% removed, with its interval: best at the top."""
    orders = sorted(values["orders"], key=lambda name: values["orders"][name]["area"]["value"])
    named = looks(orders)
    with style():
        figure, axes = plt.subplots(figsize=(8, 0.3 * len(orders) + 1.2))
        for row, name in enumerate(orders):
            area = values["orders"][name]["area"]
            low, high = (100 * end for end in area["interval"])
            colour = BLUE if name == "importance" else GREY
            axes.plot([low, high], [row, row], "-", color=colour, linewidth=2)
            axes.plot(100 * area["value"], row, "o", color=colour)
        axes.set(
            yticks=range(len(orders)),
            yticklabels=[named[name].label for name in orders],
            xlabel="kept of the score above chance, mean over 0 to 50% removed (%)",
        )
        axes.tick_params(axis="y", labelsize=9)
        figure.tight_layout()
    return figure
