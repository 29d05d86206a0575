"""The translation half: one function a figure, from a result's values, the paper's value beside."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headprune_lib.replication.pages.plots.orders import looks
from headprune_lib.replication.pages.plots.style import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    RED,
    SERIES,
    WIDE,
    Layout,
    below,
    dots,
    layer_changes,
    pruning_axes,
    pruning_curve,
    share_in_the_paper,
    style,
)
from headprune_lib.replication.pages.tables import paper, published_share, published_task
from headprune_lib.replication.pages.tables.pages import estimate
from headprune_lib.replication.titles import spelled

__all__ = [
    "figure2a",
    "figure3a",
    "figure4",
    "quality",
    "search",
    "table2",
]

KINDS = {"enc-enc": BLUE, "enc-dec": RED, "dec-dec": ORANGE}
_MARKS = dict(zip(KINDS, "osD", strict=True))
BLEU_CHANGE = "change of BLEU"


def quality(values: Mapping[str, dict], layout: Layout = WIDE) -> Figure:
    """Learning curves: validation BLEU after each epoch, a line a model.

    Args:
        values: name of the model -> values of its result.
    """
    with style():
        figure, axes = plt.subplots(figsize=layout.canvas(290))
        for (name, model), colour, mark in zip(values.items(), SERIES, itertools.cycle("os^")):
            curve = model["curve"]
            axes.plot(
                [record["epoch"] for record in curve],
                [record["bleu"] for record in curve],
                f"{mark}-",
                color=colour,
                label=name,
                markersize=5,
            )
        axes.set(xlabel="epoch", ylabel="validation BLEU, greedy", ylim=(0, None))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        below(figure, layout)
    return figure


def search(values: dict, layout: Layout = WIDE) -> Figure:
    """Change of BLEU with greedy search against beam 5, a dot a cut."""
    rank = values["spearman"]["all"]
    with style():
        figure, axes = plt.subplots(figsize=layout.canvas(330))
        for alone, label, colour, mark in (
            (False, "one head cut", BLUE, "o"),
            (True, "one head left in a layer", ORANGE, "s"),
        ):
            x, y = (
                [cut[f"beam {beams}"] for cut in values["cuts"] if cut["alone"] == alone]
                for beams in (1, 5)
            )
            axes.scatter(x, y, marker=mark, color=colour, alpha=0.8, label=label)
        axes.axline((0, 0), slope=1, color=BLACK, linewidth=1, linestyle=":")
        if rank["r"] is not None:
            axes.set_title(f"Spearman {estimate(rank['r'], rank['interval'])}")
        axes.set(xlabel=f"greedy: {BLEU_CHANGE}", ylabel=f"beam of 5: {BLEU_CHANGE}")
        below(figure, layout)
    return figure


def table2(chosen_on_test: dict, chosen_on_valid: dict, layout: Layout = WIDE) -> Figure:
    """Change of BLEU with each layer reduced to its best head, a panel a kind; two choices."""
    with style():
        figure, panels = layout.panels(3, 270, sharey=True)
        for kind, axes in zip(KINDS, panels, strict=True):
            for values, label, colour, shift, form in (
                (chosen_on_test, "chosen on the test set (as Table 2)", BLUE, -0.15, "o"),
                (chosen_on_valid, "chosen on other chapters (as Table 5)", ORANGE, 0.0, "s"),
            ):
                rows = [row for row in values["layers"] if row["kind"] == kind]
                layer_changes(axes, rows, 1, shift, form=form, color=colour, label=label)
            published = paper("table5")[kind]["delta_bleu"]
            axes.plot(
                np.arange(1, len(published) + 1) + 0.15,
                published,
                "D",
                color=GREEN,
                label="the paper, Table 5",
            )
            axes.axhline(0, color=BLACK, linewidth=1)
            axes.set(title=kind, xlabel="layer", xticks=range(1, len(published) + 1))
        for axes in panels[:: layout.columns]:
            axes.set(ylabel=BLEU_CHANGE)
        below(figure, layout)
    return figure


def figure2a(values: dict, layout: Layout = WIDE) -> Figure:
    """Effect of each encoder cut on the test verses against another English: BLEU, and loss."""
    with style():
        figure, panels = layout.panels(2, 320)
        for axes, measure, unit in (
            (panels[0], "bleu", "change of BLEU"),
            (panels[1], "loss", "change of loss (nats a verse)"),
        ):
            x, y = (
                [head[f"{measure} {place}"] for head in values["heads"]]
                for place in ("home", "far")
            )
            dots(axes, x, y, values["correlations"][measure]["pearson"])
            axes.set(xlabel=f"World English: {unit}", ylabel="King James: the same")
            axes.xaxis.set_major_locator(MaxNLocator(5))
        figure.tight_layout()
    return figure


def figure3a(values: dict, task: str = "enfr", layout: Layout = WIDE) -> Figure:
    """BLEU against the share of heads removed, a line an order, and the paper's share for the task."""
    shares, curves = 100 * np.array(values["shares"]), values["curves"]
    with style():
        figure, axes = plt.subplots(figsize=layout.canvas(380 if layout.columns > 1 else 320))
        for name, look in looks(curves).items():
            pruning_curve(axes, shares, curves[name], *look)
        if (published := published_share(task)) is not None:
            share_in_the_paper(axes, published, spelled(published_task(task)).upper())
        pruning_axes(axes, "BLEU")
        axes.set_ylim(0, None)
        below(figure, layout)
    return figure


def figure4(values: dict, joint: dict, layout: Layout = WIDE) -> Figure:
    """BLEU as heads of one kind are removed, random orders as bands; all kinds at once beside."""
    shares, curves = 100 * np.array(values["shares"]), values["curves"]
    published = paper("figure4")["enc-enc_bleu_with_20_percent_left"] / paper("table1")["base_bleu"]
    with style():
        figure, axes = plt.subplots(figsize=layout.canvas(400 if layout.columns > 1 else 330))
        for kind, colour in KINDS.items():
            mark = _MARKS[kind]
            for order, label, line in (
                ("importance", "by importance", f"{mark}-"),
                ("random", "random order", f"{mark}:"),
            ):
                pruning_curve(
                    axes, shares, curves[f"{kind} {order}"], f"{kind}, {label}", colour, line
                )
        pruning_curve(
            axes,
            shares,
            joint["curves"]["importance"],
            "all kinds together, by importance",
            PURPLE,
            "--",
        )
        axes.plot(
            80,
            published * curves["enc-enc importance"]["mean"][0],
            "*",
            color=GREEN,
            markersize=13,
            linestyle="none",
            label=f"the paper: {published:.0%} of BLEU kept (enc-enc, dec-dec)",
        )
        pruning_axes(axes, "BLEU", "% of the kind")
        axes.set_ylim(0, None)
        below(figure, layout)
    return figure
