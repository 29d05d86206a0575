"""The same heads measured twice: by two laboratories, or after two fine-tunings."""

from __future__ import annotations

from matplotlib.figure import Figure

from headprune_lib.replication import stats
from headprune_lib.replication.pages.plots.style import (
    WIDE,
    Layout,
    dots,
    style,
)
from headprune_lib.replication.pages.tables.independent import Grid

__all__ = [
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
