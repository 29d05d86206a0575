"""The score after heads were removed, before and after training again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from headprune_lib.replication.measurements.recovery import NO_ORDER
from headprune_lib.replication.pages.plots.orders import looks
from headprune_lib.replication.pages.plots.style import WIDE, Layout, below, style

__all__ = ["before_and_after"]

_ASIDE = 0.8  # points of the share, so that intervals do not cover one another


def before_and_after(
    values: Mapping[str, Any], metric: str = "accuracy", layout: Layout = WIDE
) -> Figure:
    """The score against the share removed: a panel before training and one after each way of it.

    A line an order, with 95% intervals; at 0 it begins at the uncut model, which was trained the
    same way. Single runs of an order that was drawn are dots.

    Args:
        values: those of ``recovery``.
        metric: of that result.
    """
    rows = values["recovered"]
    ways = list(dict.fromkeys(one["way"] for one in rows))
    # before training both ways are one; what was measured for either is shown
    panels = [("before", "before training", ways)]
    panels += [("after", f"after training, {way}", [way]) for way in ways]
    orders = looks(dict.fromkeys(one["order"] for one in rows if one["order"] != NO_ORDER))
    with style():
        figure, places = layout.panels(len(panels), 330, sharey=True)
        for axes, (when, title, told) in zip(places, panels, strict=True):
            for place, (name, look) in enumerate(orders.items()):
                found = _along(rows, name, when, told)
                if len(found) < 2:  # the uncut model alone
                    continue
                shares = 100 * np.array(list(found))
                scores = 100 * np.array([state["score"] for state in found.values()])
                ends = 100 * np.array([state["interval"] for state in found.values()])
                n_runs = max(len(state["runs"]) for state in found.values())
                aside = _ASIDE * (place - (len(orders) - 1) / 2)
                label = look.label + (f" (mean of {n_runs})" if n_runs > 1 else "")
                axes.plot(shares, scores, look.line, color=look.colour, label=label)
                axes.vlines(shares + aside, *ends.T, color=look.colour, linewidth=1.5)
                for share, state in found.items():
                    if len(state["runs"]) > 1:
                        dots = 100 * np.array(state["runs"])
                        where = np.full(len(dots), 100 * share)
                        axes.plot(where, dots, ".", color=look.colour, alpha=0.6)
            axes.set(title=title, xlabel="heads removed (%)", xticks=range(0, 61, 20))
        for axes in places[:: min(layout.columns, len(places))]:
            axes.set_ylabel("BLEU" if metric == "BLEU" else f"{metric} (%)")
        below(figure, layout)
    return figure


def _along(
    rows: list[Mapping[str, Any]], order: str, when: str, ways: list[str]
) -> dict[float, Mapping[str, Any]]:
    """Share -> state of an order in the first of some ways that has it, from the uncut model on."""
    found = {}
    for way in reversed(ways):
        for one in rows:
            if one["way"] == way and one["order"] in (order, NO_ORDER):
                found[one["share"]] = one[when]
    return dict(sorted(found.items()))
