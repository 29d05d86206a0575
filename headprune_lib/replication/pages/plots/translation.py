"""The translation half: one function a figure, from a result's values, the paper's value beside."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

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
    pruning_axes,
    pruning_curve,
    style,
)
from headprune_lib.replication.pages.tables import paper
from headprune_lib.replication.pages.tables.pages import estimate
from headprune_lib.replication.store.results import Result

__all__ = [
    "figure4",
    "quality",
    "search",
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


def figure4(
    shown: Mapping[str, Result], joint: Mapping[str, Result], layout: Layout = WIDE
) -> Figure:
    """BLEU as heads of one kind are removed; a panel a model, a band where there are several runs.

    Args:
        shown: name -> result of Figure 4.
        joint: name -> pruning curve of all kinds together, drawn where the model has one.
    """
    with style():
        figure, panels = layout.panels(len(shown), _height(layout, 400), columns=2)
        for axes, (name, result) in zip(panels, shown.items(), strict=True):
            _kinds_apart(axes, result)
            if name in joint:
                values = joint[name].values
                pruning_curve(
                    axes,
                    100 * np.array(values["shares"]),
                    values["curves"]["importance"],
                    "all kinds together, by importance",
                    PURPLE,
                    "--",
                    counted=False,
                )
            _bleu_axes(axes, name if len(shown) > 1 else "", "% of the kind")
        below(figure, layout)
    return figure


def _kinds_apart(axes: Axes, figure4: Result) -> None:
    """The curves of each kind of attention, and what the paper has left at 80% removed."""
    shares, curves = 100 * np.array(figure4.values["shares"]), figure4.values["curves"]
    for kind, colour in KINDS.items():
        for order, label, line in (
            ("importance", "by importance", f"{_MARKS[kind]}-"),
            ("random", "random order", f"{_MARKS[kind]}:"),
        ):
            if (curve := curves.get(f"{kind} {order}")) is not None:
                pruning_curve(axes, shares, curve, f"{kind}, {label}", colour, line, counted=False)
    published = paper("figure4")["enc-enc_bleu_with_20_percent_left"] / paper("table1")["base_bleu"]
    axes.plot(
        80,
        published * curves["enc-enc importance"]["mean"][0],
        "*",
        color=GREEN,
        markersize=13,
        linestyle="none",
        label=f"the paper: {published:.0%} of BLEU kept (enc-enc, dec-dec)",
    )


def _height(layout: Layout, wide: int) -> int:
    """Of a panel of lines in pixels: as given where it is wide, less on a phone."""
    return wide if layout.columns > 1 else 320


def _bleu_axes(axes: Axes, title: str, removed: str = "% of all") -> None:
    pruning_axes(axes, "BLEU", removed)
    axes.set_title(title)
    axes.set_ylim(0, None)
