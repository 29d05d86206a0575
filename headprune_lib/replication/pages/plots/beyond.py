"""Figures beyond the paper: other criteria, retraining, heads measured twice, a language model."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from headprune_lib.replication import stats
from headprune_lib.replication.claims.questions import DELTA_NATS, above_chance
from headprune_lib.replication.formatting import with_minus
from headprune_lib.replication.measurements.language_curve import PER_GROUP, WHOLE_GROUPS
from headprune_lib.replication.measurements.recovery import NO_ORDER
from headprune_lib.replication.pages.plots.style import (
    BLUE,
    BROWN,
    GREY,
    ORANGE,
    PURPLE,
    WIDE,
    Layout,
    Look,
    below,
    dots,
    looks,
    pruning_curve,
    weight,
)
from headprune_lib.replication.pages.tables.beyond import Grid
from headprune_lib.replication.titles import order_title


def same_heads(panels: list[tuple[str, Grid, Grid]], layout: Layout = WIDE) -> Figure:
    """Two measurements of each cut's effect, one panel per pair, in accuracy points or BLEU."""
    figure, places = layout.panels(len(panels), 300)
    for axes, (title, first, second) in zip(places, panels, strict=True):
        unit, scale = ("points", 100) if first.kind == "self" else ("BLEU", 1)
        x, y = scale * first.values.ravel(), scale * second.values.ravel()
        correlation = stats.correlation(x, y)
        dots(
            axes,
            x,
            y,
            {"r": correlation.value, "interval": [correlation.low, correlation.high]},
            f"{title}\n",
        )
        axes.set(xlabel=f"{first.lab}:\nchange ({unit})", ylabel=f"{second.lab}: change ({unit})")
    figure.tight_layout()
    return figure


def kept_by_model(
    shown: Mapping[str, dict], orders: Sequence[str], layout: Layout = WIDE
) -> Figure:
    """The mean share kept over 0 to 50% removed, with intervals: a row per model, a dot per order.

    A task whose uncut model is not above chance is left out, unless that leaves none.

    Args:
        shown: name of task and model -> values of ``which_first``.
        orders: the orders to plot; those missing from a result are left out.
    """
    shown = {name: area for name, area in shown.items() if above_chance(area)} or shown
    wide = layout.columns > 1
    figure, axes = plt.subplots(figsize=layout.canvas((40 if wide else 62) * len(shown) + 50))
    for position, (order, look) in enumerate(looks(orders).items()):
        areas = {
            line: values["orders"][order]["area"]
            for line, values in enumerate(shown.values())
            if order in values["orders"]
        }
        height = np.array(list(areas)) + 0.16 * (position - (len(orders) - 1) / 2)
        ends = 100 * np.array([area["interval"] for area in areas.values()]).reshape(-1, 2)
        middles = [100 * area["value"] for area in areas.values()]
        marker = {"s": 40, "marker": "D"} if order == "importance" else {"s": 22}
        inside = look.colour if look.line.endswith("-") else "none"  # hollow if the line is dotted
        axes.scatter(
            *(middles, height),
            **marker,
            facecolors=inside,
            edgecolors=look.colour,
            label=look.label,
            zorder=3,
        )
        axes.hlines(height, *ends.T, color=look.colour, linewidth=1.5, label=look.label)
    names = [name if wide else textwrap.fill(name, 16) for name in shown]
    axes.set(yticks=range(len(shown)), yticklabels=names, xlabel=_KEPT[wide], xlim=(_LOWEST, 110))
    axes.invert_yaxis()
    return below(figure, layout)


_LOWEST = 20
"""Share kept (%) at the left edge of the panel."""
_KEPT = {True: "kept above chance, mean over 0 to 50% removed (%)", False: "kept above chance (%)"}
"""Axis label that fits a wide layout (True) or a narrow one (False)."""


def areas_of_orders(
    values: Mapping[str, Any], passes: Mapping[str, float], layout: Layout = WIDE
) -> Figure:
    """The mean share kept over 0 to 50% removed, with its interval; the best order is at the top.

    Args:
        values: the values of ``which_first``.
        passes: criterion -> cost of its scores in forward passes, shown after its name.
    """
    orders = sorted(values["orders"], key=lambda name: values["orders"][name]["area"]["value"])
    wide = layout.columns > 1
    figure, axes = plt.subplots(figsize=layout.canvas((19 if wide else 52) * len(orders) + 70))
    names = []
    for line, (name, look) in enumerate((name, looks([name])[name]) for name in orders):
        area = values["orders"][name]["area"]
        low, high = (100 * end for end in area["interval"])
        colour = BLUE if name == "importance" else GREY
        axes.plot([low, high], [line, line], "-", color=colour, linewidth=2)
        axes.scatter([100 * area["value"]], [line], color=colour, label=look.label)
        cost = f" ({passes[name]:,.{0 if passes[name] > 10 else 1}f})" if name in passes else ""
        names.append(look.label + cost if wide else textwrap.fill(look.label + cost, 18))
    axes.set(yticks=range(len(orders)), yticklabels=names, xlabel=_KEPT[wide])
    axes.set_ylim(-0.7, len(orders) - 0.3)
    figure.tight_layout()
    return figure


_ASIDE = 0.8  # percentage points removed, so that intervals do not overlap


def before_and_after(
    values: Mapping[str, Any], metric: str = "accuracy", layout: Layout = WIDE
) -> Figure:
    """The score against the share removed: one panel before training and one after each way of it.

    Each order is a line with 95% intervals. At 0 it starts from the uncut model, which was trained
    the same way. Single runs of a random order are dots.

    Args:
        values: the values of ``recovery``.
        metric: the metric of that result.
    """
    rows = values["recovered"]
    ways = list(dict.fromkeys(row["way"] for row in rows))
    # the ways do not differ before training, so measurements for either are shown
    panels = [("before", "before training", ways)]
    panels += [("after", f"after training, {way}", [way]) for way in ways]
    orders = looks(dict.fromkeys(row["order"] for row in rows if row["order"] != NO_ORDER))
    figure, places = layout.panels(len(panels), 330, sharey=True)
    for axes, (when, title, wanted_way) in zip(places, panels, strict=True):
        for position, (name, look) in enumerate(orders.items()):
            states = _along(rows, name, when, wanted_way)
            if len(states) < 2:  # the uncut model alone
                continue
            shares = 100 * np.array(list(states))
            scores = 100 * np.array([state["score"] for state in states.values()])
            ends = 100 * np.array([state["interval"] for state in states.values()])
            n_runs = max(len(state["runs"]) for state in states.values())
            aside = _ASIDE * (position - (len(orders) - 1) / 2)
            label = look.label + (f" (mean of {n_runs})" if n_runs > 1 else "")
            axes.plot(shares, scores, look.line, color=look.colour, label=label, **weight(name))
            axes.vlines(shares + aside, *ends.T, color=look.colour, linewidth=1.5)
            for share, state in states.items():
                if len(state["runs"]) > 1:
                    dots = 100 * np.array(state["runs"])
                    where = np.full(len(dots), 100 * share)
                    axes.plot(where, dots, ".", color=look.colour, alpha=0.6)
        axes.set(title=title, xlabel="heads removed (%)", xticks=range(0, 61, 20))
    return below(figure, layout, ylabel="BLEU" if metric == "BLEU" else f"{metric} (%)")


def _along(
    rows: list[Mapping[str, Any]], order: str, when: str, ways: list[str]
) -> dict[float, Mapping[str, Any]]:
    """Share -> an order's state in the first of the ways that has it, from the uncut model on."""
    states = {}
    for way in reversed(ways):
        for row in rows:
            if row["way"] == way and row["order"] in (order, NO_ORDER):
                states[row["share"]] = row[when]
    return dict(sorted(states.items()))


_GROUPS = {
    PER_GROUP: Look(order_title(PER_GROUP), PURPLE, "-."),
    WHOLE_GROUPS: Look(order_title(WHOLE_GROUPS), BROWN, "--"),
}

_TICKS = (10, 30, 100, 300, 1_000, 3_000, 10_000)


def perplexity_along(shown: Mapping[str, dict], layout: Layout = WIDE) -> Figure:
    """Perplexity against the share of heads removed, one panel per text, one line per order.

    Args:
        shown: name of the text -> values of ``language_curve``.
    """
    figure, panels = layout.panels(len(shown), 340)
    for axes, (title, values) in zip(panels, shown.items(), strict=True):
        shares = 100 * np.array(values["shares"])
        single = [name for name in values["curves"] if name not in _GROUPS]
        for name, look in (looks(single) | _GROUPS).items():
            if name not in values["curves"]:
                continue
            curve = values["curves"][name]
            perplexities = {"mean": curve["perplexity"], "runs": np.exp(curve["runs"])}
            pruning_curve(axes, shares, perplexities, *look, **weight(name))
        # the reversed order may leave the axes: on its scale the others could not be told apart
        most = max(np.exp(curve["runs"]).max() for name, curve in values["curves"].items()
                   if name != "importance reversed")  # fmt: skip
        least = min(min(curve["perplexity"]) for curve in values["curves"].values())
        axes.set(title=title, xlabel="heads removed (%)", yscale="log")
        axes.set_yticks(_TICKS, [f"{tick:,}" for tick in _TICKS])
        axes.minorticks_off()
        axes.set_ylim(0.85 * least, 1.3 * most)
    return below(figure, layout, ylabel="perplexity (log scale)")


def added_by_head(values: Mapping[str, Any], layout: Layout = WIDE) -> Figure:
    """The loss per token that each head's absence adds, by layer, one dot per head."""
    added = np.array([head["added"] for head in values["heads"]])
    layers = [head["layer"] + 1 for head in values["heads"]]
    figure, axes = plt.subplots(figsize=layout.canvas(320))
    axes.scatter(layers, added, s=16, color=BLUE)
    axes.axhline(DELTA_NATS, color=ORANGE, linewidth=2, label=f"{DELTA_NATS} nats")
    axes.set_yscale("symlog", linthresh=DELTA_NATS)  # values run from below 0 to whole nats
    ticks = [-DELTA_NATS, 0, DELTA_NATS, 0.1, 1, 10]
    axes.set_yticks(ticks, [with_minus(f"{tick:g}") for tick in ticks])
    axes.set(
        xlabel="layer",
        xlim=(0, max(layers) + 4),  # with room for the line's name
        ylabel="added loss (nats a token)",
        ylim=(min(-2 * DELTA_NATS, 1.5 * added.min()), 2 * added.max()),
    )
    return below(figure, layout)
