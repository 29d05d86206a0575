"""Figures beyond the paper: other criteria, training again, heads measured twice, a language model."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from headprune_lib.replication import stats
from headprune_lib.replication.bounds import ORDERS_UP_TO
from headprune_lib.replication.claims.questions import DELTA_NATS, above_chance
from headprune_lib.replication.measurements.language_curve import PER_GROUP, WHOLE_GROUPS
from headprune_lib.replication.measurements.recovery import NO_ORDER
from headprune_lib.replication.pages.plots.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    WIDE,
    Layout,
    Look,
    below,
    dots,
    estimates,
    looks,
    pruning_curve,
)
from headprune_lib.replication.pages.tables.beyond import Grid
from headprune_lib.replication.pages.tables.markup import with_minus
from headprune_lib.replication.published import published_orders
from headprune_lib.replication.titles import ROLES, order_title, spelled

__all__ = [
    "added_by_head",
    "areas_of_orders",
    "before_and_after",
    "curves_of_orders",
    "others_curves",
    "perplexity_along",
    "same_heads",
    "scores_by_sentences",
    "what_goes_first",
]


def same_heads(panels: list[tuple[str, Grid, Grid]], layout: Layout = WIDE) -> Figure:
    """Effect of each cut as two measured it, a panel a pair; accuracy in points, BLEU as it is."""
    figure, places = layout.panels(len(panels), 300)
    for axes, (title, one, two) in zip(places, panels, strict=True):
        unit, scale = ("points", 100) if one.kind == "self" else ("BLEU", 1)
        x, y = scale * one.values.ravel(), scale * two.values.ravel()
        found = stats.correlation(x, y)
        dots(axes, x, y, {"r": found.value, "interval": [found.low, found.high]}, f"{title}\n")
        axes.set(xlabel=f"{one.lab}:\nchange ({unit})", ylabel=f"{two.lab}: change ({unit})")
    figure.tight_layout()
    return figure


_COLOURS = {
    "importance": BLUE,
    "importance and entropy": PURPLE,
    "attention entropy": ORANGE,
    "random": GREY,
}

_LINES = {"Silent-Zebra": "-", "Guo et al. 2026": "--", "HIES 2025": "o:"}


def others_curves(layout: Layout = WIDE) -> Figure:
    """What is kept of the accuracy above chance, a panel a task, a line an order of a laboratory."""
    every = published_orders()
    tasks = list(dict.fromkeys(one.task for one in every))
    figure, panels = layout.panels(len(tasks), 330, columns=2, sharey=True)
    for axes, task in zip(panels, tasks, strict=True):
        for one in every:
            if one.task == task:
                colour, label = _COLOURS.get(one.order, GREEN), f"{one.order} ({one.who})"
                x, y = 100 * one.shares, 100 * one.kept
                axes.plot(x, y, _LINES[one.who], color=colour, label=label, markersize=4)
        axes.axvspan(0, 100 * ORDERS_UP_TO, color=GREY, alpha=0.12, linewidth=0)
        axes.set(title=f"BERT-base, {spelled(task)}", xlabel="heads removed (%)", xlim=(0, 100))
    for axes in panels[:: layout.columns]:
        axes.set_ylabel("kept above chance (%)")
    return below(figure, layout)


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
    figure, panels = layout.panels(len(shown), 330, columns=2, sharey=True)
    for axes, (title, values) in zip(panels, shown.items(), strict=True):
        for name, look in looks([o for o in orders if o in values["orders"]]).items():
            kept = 100 * np.array(values["orders"][name]["kept"])
            shares = 100 * np.array(values["shares"])[: len(kept)]
            axes.plot(shares, kept, look.line, color=look.colour, label=look.label, markersize=4)
        axes.axvspan(0, 100 * ORDERS_UP_TO, color=GREY, alpha=0.12, linewidth=0)
        axes.set(title=title, xlabel="heads removed (%)", xlim=(0, 100))
    if panels[0].get_ylim()[0] < _LOWEST:
        panels[0].set_ylim(bottom=_LOWEST)
    for axes in panels[:: layout.columns]:
        axes.set_ylabel("kept above chance (%)")
    return below(figure, layout)


def areas_of_orders(values: Mapping[str, Any], layout: Layout = WIDE) -> Figure:
    """The share kept, mean over 0 to 50% removed, with its interval: best at the top."""
    orders = sorted(values["orders"], key=lambda name: values["orders"][name]["area"]["value"])
    named = looks(orders)
    wide = layout.columns > 1
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
            named[name].label if wide else textwrap.fill(named[name].label, 18) for name in orders
        ],
        xlabel="kept above chance, mean over 0 to 50% removed (%)"
        if wide
        else "kept above chance (%)",
    )
    figure.tight_layout()
    return figure


_UNITS = {"entropy": (1, " (0 to 1)"), "place": (100, " (%)"), "special": (100, " (%)")}
_SHIFT = 1.06


def scores_by_sentences(values: Mapping[str, Any], layout: Layout = WIDE) -> Figure:
    """Rank correlation with the scores on all sentences, and what the order keeps less, a line a
    criterion over the number of sentences.
    """
    criteria = values["criteria"]
    sizes = sorted({row["n"] for rows in criteria.values() for row in rows})
    figure, (left, right) = layout.panels(2, 300)
    for place, (name, look) in enumerate(looks(criteria).items()):
        rows = criteria[name]
        told = np.array([row["n"] for row in rows], float)
        x = told * _SHIFT ** (place - (len(criteria) - 1) / 2)
        for axes, key, scale in ((left, "with_all", 1), (right, "lost", 100)):
            found, form = [row[key] for row in rows], "o" + look.line.strip("os^")
            estimates(
                axes,
                x,
                [one["value"] for one in found],
                [one["interval"] for one in found],
                form,
                scale=scale,
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
    return below(figure, layout)


def what_goes_first(values: Mapping[str, Any], layout: Layout = WIDE) -> Figure:
    """What the heads of each step look at, in the mean, a panel a role and a line an order."""
    orders = zip(values["orders"].items(), ((BLUE, "o-"), (ORANGE, "s--")), strict=True)
    drawn = [(name, one["steps"], *look) for (name, one), look in orders]
    figure, panels = layout.panels(len(ROLES), 230, columns=2)
    for axes, (role, title) in zip(panels, ROLES.items(), strict=True):
        scale, unit = _UNITS.get(role, (1, ""))
        for side, (name, steps, colour, line) in zip((-1, 1), drawn, strict=True):
            found = steps[role]
            told = 100 * (np.arange(len(found)) + 0.5) / len(found)
            estimates(
                axes,
                told + side,
                [step["mean"] for step in found],
                [step["interval"] for step in found],
                line,
                scale=scale,
                told_at=told,
                color=colour,
                label=order_title(name),
                linewidth=1,
            )
        mean = scale * values["means"][role]
        axes.axhline(mean, color=BLACK, linewidth=1, linestyle=":", label="mean of all heads")
        axes.set(title=title + unit, xlim=(0, 100), xlabel="heads removed (%)")
    return below(figure, layout, columns=3)


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
    return below(figure, layout)


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


_GROUPS = {
    PER_GROUP: Look(order_title(PER_GROUP), PURPLE, "-."),
    WHOLE_GROUPS: Look(order_title(WHOLE_GROUPS), ORANGE, "--"),
}

_TICKS = (10, 30, 100, 300, 1_000, 3_000, 10_000)


def perplexity_along(shown: Mapping[str, dict], layout: Layout = WIDE) -> Figure:
    """Perplexity against the share of heads removed, a panel a text, a line an order.

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
            found = {"mean": curve["perplexity"], "runs": np.exp(curve["runs"])}
            pruning_curve(axes, shares, found, *look)
        # the reversed order leaves the picture: the others could not be told apart beside it
        most = max(np.exp(curve["runs"]).max() for name, curve in values["curves"].items()
                   if name != "importance reversed")  # fmt: skip
        least = min(min(curve["perplexity"]) for curve in values["curves"].values())
        axes.set(title=title, xlabel="heads removed (%)", yscale="log")
        axes.set_yticks(_TICKS, [f"{tick:,}" for tick in _TICKS])
        axes.minorticks_off()
        axes.set_ylim(0.85 * least, 1.3 * most)
    for axes in panels[:: min(layout.columns, len(panels))]:
        axes.set_ylabel("perplexity (log scale)")
    return below(figure, layout)


def added_by_head(values: Mapping[str, Any], layout: Layout = WIDE) -> Figure:
    """The loss a token that each head's absence adds, by layer: a dot a head."""
    added = np.array([head["added"] for head in values["heads"]])
    layers = [head["layer"] + 1 for head in values["heads"]]
    figure, axes = plt.subplots(figsize=layout.canvas(320))
    axes.scatter(layers, added, s=16, color=BLUE, label="one head's absence")
    axes.axhline(DELTA_NATS, color=GREEN, linewidth=2, label=f"{DELTA_NATS} nats, 1% of perplexity")
    axes.set_yscale("symlog", linthresh=DELTA_NATS)  # from below 0 to whole nats
    ticks = [-DELTA_NATS, 0, DELTA_NATS, 0.1, 1, 10]
    axes.set_yticks(ticks, [with_minus(f"{tick:g}") for tick in ticks])
    axes.set(
        xlabel="layer",
        ylabel="added loss a token (nats)",
        ylim=(min(-2 * DELTA_NATS, 1.5 * added.min()), 2 * added.max()),
    )
    return below(figure, layout)
