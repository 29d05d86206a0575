"""Curves of orders of removal that others measured on BERT-base."""

from __future__ import annotations

from matplotlib.figure import Figure

from headprune_lib.replication.bounds import ORDERS_UP_TO
from headprune_lib.replication.pages.plots.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    WIDE,
    Layout,
    below,
    style,
)
from headprune_lib.replication.published import published_orders
from headprune_lib.replication.titles import spelled

__all__ = ["others_curves"]

_COLOURS = {
    "importance": BLUE,
    "importance and entropy": PURPLE,
    "attention entropy": ORANGE,
    "random": GREY,
}
_LINES = {"Silent-Zebra": "-", "Guo et al. 2026": "--", "HIES 2025": "o:"}


def others_curves(layout: Layout = WIDE) -> Figure:
    """What is kept of the accuracy above chance, a panel a task, a line an order of a laboratory."""
    with style():
        every = published_orders()
        tasks = list(dict.fromkeys(one.task for one in every))
        figure, panels = layout.panels(len(tasks), 330, columns=2, sharey=True)
        for axes, task in zip(panels, tasks, strict=True):
            for one in every:
                if one.task == task:
                    axes.plot(
                        100 * one.shares,
                        100 * one.kept,
                        _LINES[one.who],
                        color=_COLOURS.get(one.order, GREEN),
                        markersize=4,
                        label=f"{one.order} ({one.who})",
                    )
            axes.axvspan(0, 100 * ORDERS_UP_TO, color=GREY, alpha=0.12, linewidth=0)
            axes.set(title=f"BERT-base, {spelled(task)}", xlabel="heads removed (%)", xlim=(0, 100))
        for axes in panels[:: layout.columns]:
            axes.set_ylabel("kept above chance (%)")
        below(figure, layout)
    return figure
