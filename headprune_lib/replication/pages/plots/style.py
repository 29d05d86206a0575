"""Colours, sizes and files of all figures."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headprune_lib.replication.pages.images import small_png
from headprune_lib.replication.pages.tables.pages import NOT_MEASURED, estimate

__all__ = [
    "as_png",
]

BLUE, ORANGE, GREEN, RED, PURPLE, BROWN, PINK, GREY = sns.color_palette("colorblind", 8)


@contextmanager
def style() -> Iterator[None]:
    with sns.axes_style("whitegrid"), sns.plotting_context("notebook", font_scale=1.0):
        yield


def estimates(
    axes: Axes, x: np.ndarray, y: np.ndarray, intervals: list, form: str = "o", **kwargs: Any
) -> None:
    """Points with their 95% intervals: ``intervals`` holds low and high for each."""
    axes.errorbar(x, y, np.abs(np.array(intervals).T - y), fmt=form, capsize=3, **kwargs)


def layer_changes(
    axes: Axes, rows: Sequence[Mapping[str, Any]], scale: float, shift: float, **kwargs: Any
) -> None:
    """The change of the score with each layer reduced to one head, times ``scale``, beside its number."""
    estimates(
        axes,
        np.array([row["layer"] + 1 + shift for row in rows]),
        scale * np.array([row["delta"] for row in rows]),
        [[scale * end for end in row["interval"]] for row in rows],
        **kwargs,
    )


def dots(
    axes: Axes, x: list[float], y: list[float], found: Mapping[str, Any], name: str = ""
) -> None:
    """A dot a head: two effects of its cut, with the line through them and their r as title."""
    sns.regplot(
        x=x, y=y, ax=axes, color=BLUE, ci=None, scatter_kws={"s": 18}, line_kws={"linewidth": 1}
    )
    if found["r"] is not None:
        axes.set_title(f"{name}r = {estimate(found['r'], found['interval'])}")


def pruning_curve(
    axes: Axes,
    shares: np.ndarray,
    curve: Mapping[str, Any],
    label: str,
    colour: Any,
    line: str,
    scale: float = 1,
) -> None:
    """The mean score over the share removed; a band from the lowest to the highest of several runs."""
    runs = scale * np.array(curve["runs"])
    label += f" (n = {len(runs)})" if len(runs) > 1 else ""
    axes.plot(shares, scale * np.array(curve["mean"]), line, color=colour, label=label)
    if len(runs) > 1:
        axes.fill_between(shares, runs.min(0), runs.max(0), color=colour, alpha=0.18, linewidth=0)


def pruning_axes(axes: Axes, shares: np.ndarray, score: str, removed: str = "% of all") -> None:
    """Names of the axes, and the legend below them."""
    axes.set(xlabel=f"heads removed ({removed})", ylabel=score, xlim=(0, 100), xticks=shares)
    axes.legend(loc="upper center", fontsize=9, bbox_to_anchor=(0.5, -0.12), ncols=2, frameon=False)


def not_measured() -> Figure:
    """What stands in a figure's place where there is no result to draw."""
    figure, axes = plt.subplots(figsize=(9.5, 1.2))
    axes.text(0.5, 0.5, NOT_MEASURED, ha="center", va="center")
    axes.axis("off")
    return figure


def as_png(figure: Figure, dpi: int = 110) -> bytes:
    """The figure as a PNG file; the same bytes each time."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=dpi, metadata={"Software": None})
    plt.close(figure)
    return small_png(file.getvalue())
