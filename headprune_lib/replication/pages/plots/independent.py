"""The same heads measured twice: by two laboratories, or after two fine-tunings."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from headprune_lib.replication import stats
from headprune_lib.replication.pages.plots.style import BLUE, dots, style
from headprune_lib.replication.pages.tables.independent import Grid

__all__ = [
    "agreement",
    "same_heads",
]


def same_heads(panels: list[tuple[str, Grid, Grid]]) -> Figure:
    """Effect of each cut as two measured it, a panel a pair; accuracy in points, BLEU as it is."""
    with style():
        figure, places = plt.subplots(
            1, len(panels), figsize=(4.1 * len(panels), 4.2), squeeze=False
        )
        for axes, (title, one, two) in zip(places[0], panels, strict=True):
            unit, scale = ("points", 100) if one.kind == "self" else ("BLEU", 1)
            x, y = scale * one.values.ravel(), scale * two.values.ravel()
            found = stats.correlation(x, y)
            dots(axes, x, y, {"r": found.value, "interval": [found.low, found.high]}, f"{title}\n")
            axes.set(xlabel=f"{one.lab}: change ({unit})", ylabel=f"{two.lab}: change ({unit})")
        figure.tight_layout()
    return figure


def agreement(values: dict) -> Figure:
    """Importance of every head (up) after each fine-tuning, heads in the order of their mean."""
    scores = np.array(values["scores"]).reshape(len(values["scores"]), -1)
    order = scores.mean(0).argsort()
    with style():
        figure, axes = plt.subplots(figsize=(9.5, 4))
        for row in scores:
            axes.plot(range(1, len(order) + 1), row[order], ".", color=BLUE, alpha=0.45)
        axes.plot(
            range(1, len(order) + 1),
            scores.mean(0)[order],
            color="black",
            linewidth=1,
            label=f"mean of {len(scores)} fine-tunings (dots)",
        )
        axes.set(
            xlabel="head, least important first",
            ylabel="importance, normalised by layer",
            ylim=(0, None),
        )
        axes.legend(loc="upper left")
        figure.tight_layout()
    return figure
