"""Colours, sizes and files of all figures."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED, PURPLE, BROWN, PINK, GREY = sns.color_palette("colorblind", 8)


@contextmanager
def style() -> Iterator[None]:
    with sns.axes_style("whitegrid"), sns.plotting_context("notebook", font_scale=1.0):
        yield


def estimates(axes: Axes, x: np.ndarray, y: np.ndarray, intervals: list, form: str = "o",
              **kwargs: Any) -> None:
    """Points with their 95% intervals: ``intervals`` holds low and high for each."""
    axes.errorbar(x, y, np.abs(np.array(intervals).T - y), fmt=form, capsize=3, **kwargs)


def as_png(figure: Figure, dpi: int = 110) -> bytes:
    """The figure as a PNG file; the same bytes each time."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=dpi, metadata={"Software": None})
    plt.close(figure)
    return file.getvalue()
