"""How far scores can be trusted: by the number of sentences; and what the heads look at that go first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from headprune_lib.replication.pages.plots.orders import looks
from headprune_lib.replication.pages.plots.style import (
    BLACK,
    BLUE,
    ORANGE,
    WIDE,
    Layout,
    below,
    estimates,
    style,
)
from headprune_lib.replication.titles import ROLES, order_title

__all__ = ["scores_by_sentences", "what_goes_first"]

_UNITS = {"entropy": (1, " (0 to 1)"), "place": (100, " (%)"), "special": (100, " (%)")}
_SHIFT = 1.06


def scores_by_sentences(values: Mapping[str, Any], layout: Layout = WIDE) -> Figure:
    """Rank correlation with the scores on all sentences, and what the order keeps less, a line a
    criterion over the number of sentences.
    """
    criteria = values["criteria"]
    sizes = sorted({row["n"] for rows in criteria.values() for row in rows})
    with style():
        figure, (left, right) = layout.panels(2, 300)
        for place, (name, look) in enumerate(looks(criteria).items()):
            rows = criteria[name]
            told = np.array([row["n"] for row in rows], float)
            x = told * _SHIFT ** (place - (len(criteria) - 1) / 2)
            for axes, key, scale in ((left, "with_all", 1), (right, "lost", 100)):
                estimates(
                    axes,
                    x,
                    scale * np.array([row[key]["value"] for row in rows]),
                    [[scale * end for end in row[key]["interval"]] for row in rows],
                    "o" + look.line.strip("os^"),
                    told_at=told,
                    color=look.colour,
                    label=look.label,
                )
        right.axhline(0, color=BLACK, linewidth=1)
        left.set_ylabel("rank correlation with all")
        right.set_ylabel("kept less than by all (points)")
        for axes in (left, right):
            axes.set(xscale="log", xlabel="sentences scored on")
            axes.xaxis.set_major_locator(FixedLocator(sizes))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        below(figure, layout)
    return figure


def what_goes_first(values: Mapping[str, Any], layout: Layout = WIDE) -> Figure:
    """What the heads of each step look at, in the mean, a panel a role and a line an order."""
    orders = zip(values["orders"].items(), ((BLUE, "o-"), (ORANGE, "s--")), strict=True)
    drawn = [(name, one["steps"], *look) for (name, one), look in orders]
    with style():
        figure, panels = layout.panels(len(ROLES), 230, columns=2)
        for axes, (role, title) in zip(panels, ROLES.items(), strict=True):
            scale, unit = _UNITS.get(role, (1, ""))
            for side, (name, steps, colour, line) in zip((-1, 1), drawn, strict=True):
                found = steps[role]
                told = 100 * (np.arange(len(found)) + 0.5) / len(found)
                estimates(
                    axes,
                    told + side,
                    scale * np.array([step["mean"] for step in found]),
                    [[scale * end for end in step["interval"]] for step in found],
                    line,
                    told_at=told,
                    color=colour,
                    label=order_title(name),
                    linewidth=1,
                )
            mean = scale * values["means"][role]
            axes.axhline(mean, color=BLACK, linewidth=1, linestyle=":", label="mean of all heads")
            axes.set(title=title + unit, xlim=(0, 100), xlabel="heads removed (%)")
        below(figure, layout, columns=3)
    return figure
