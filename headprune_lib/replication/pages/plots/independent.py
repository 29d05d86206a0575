"""The same heads measured twice: by two laboratories, or after two fine-tunings."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from headprune_lib.replication import stats
from headprune_lib.replication.pages.plots.style import (
    BLACK,
    BLUE,
    WIDE,
    Layout,
    below,
    dots,
    style,
)
from headprune_lib.replication.pages.tables.independent import Grid

__all__ = [
    "agreement",
    "same_heads",
]


def same_heads(panels: list[tuple[str, Grid, Grid]], layout: Layout = WIDE) -> Figure:
    """Effect of each cut as two measured it, a panel a pair; accuracy in points, BLEU as it is."""
    with style():
        figure, places = layout.panels(len(panels), 300)
        for axes, (title, one, two) in zip(places, panels, strict=True):
            unit, scale = ("points", 100) if one.kind == "self" else ("BLEU", 1)
            x, y = scale * one.values.ravel(), scale * two.values.ravel()
            found = stats.correlation(x, y)
            dots(axes, x, y, {"r": found.value, "interval": [found.low, found.high]}, f"{title}\n")
            axes.set(xlabel=f"{one.lab}:\nchange ({unit})", ylabel=f"{two.lab}: change ({unit})")
        figure.tight_layout()
    return figure


def agreement(values: dict, layout: Layout = WIDE) -> Figure:
    """Importance of every head (up) after each fine-tuning, heads in the order of their mean."""
    scores = np.array(values["scores"]).reshape(len(values["scores"]), -1)
    order = scores.mean(0).argsort()
    places = np.arange(1, len(order) + 1)
    with style():
        figure, axes = plt.subplots(figsize=layout.canvas(290))
        for i, row in enumerate(scores):
            axes.scatter(
                places,
                row[order],
                s=10,
                color=BLUE,
                alpha=0.5,
                label="" if i else "one fine-tuning",
            )
        axes.plot(
            places,
            scores.mean(0)[order],
            color=BLACK,
            linewidth=1,
            label=f"mean of {len(scores)} fine-tunings",
        )
        axes.set(
            xlabel="head, least important first",
            ylabel="importance, by layer",
            ylim=(0, None),
        )
        below(figure, layout)
    return figure
