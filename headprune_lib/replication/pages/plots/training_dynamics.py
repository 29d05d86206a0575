"""Figure 5: what pruning costs at checkpoints of trainings, and what grows from one to the next."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headprune_lib.replication.pages.plots.style import BLUE, GREEN, GREY, ORANGE, PURPLE, style
from headprune_lib.replication.pages.plots.style import estimates as with_intervals

__all__ = [
    "along_training",
    "figure5",
]

_MODELS = (BLUE, ORANGE, GREEN, PURPLE)
Points = Sequence[Mapping[str, Any]]
"""The checkpoints of a training, in order of updates."""


def figure5(values: dict) -> Figure:
    """BLEU kept and loss against share removed, a line a checkpoint; Gini coefficients beside.

    The first training's lines are named, those of further trainings are thin. The untrained model
    has no BLEU to keep.
    """
    shares, trainings = 100 * np.array(values["shares"]), _trainings(values)
    at = [point["updates"] for points in trainings for point in points if point["updates"]]
    with style():
        figure, ((left, middle), (right, legend)) = plt.subplots(2, 2, figsize=(9.5, 7.6))
        for i, points in enumerate(trainings):
            for point in points:
                look = _look(point["updates"], min(at), max(at)) | {"linewidth": 0.8 if i else 2}
                label = f"epoch {point['epoch']:.3g} (BLEU {point['bleu'][0]:.1f})"
                middle.plot(shares, point["loss"], label=None if i else label, **look)
                if point["updates"]:
                    left.plot(shares, 100 * np.array(point["kept"]), **look)
        left.set(xlabel="heads removed (%)", ylabel="BLEU kept (%)", xlim=(0, 100))
        middle.set(
            xlabel="heads removed (%)",
            ylabel="loss of the references (nats a piece)",
            xlim=(0, 100),
        )
        legend.axis("off")
        legend.legend(*middle.get_legend_handles_labels(), loc="center", frameon=False)
        for name, label, colour in (
            ("gini", "all heads", BLUE),
            ("gini_within", "within layers", ORANGE),
        ):
            for i, points in enumerate(trainings):
                with_intervals(
                    right,
                    _updates(points),
                    _values(points, name),
                    [point[f"{name}_interval"] for point in points],
                    "o-",
                    color=colour,
                    linewidth=1 if i else 2,
                    markersize=3 if i else 5,
                    label=None if i else label,
                )
        right.set(xlabel="updates", ylabel="Gini coefficient of importance", ylim=(0, None))
        right.xaxis.set_major_locator(MaxNLocator(4))
        right.legend(fontsize=9)
        figure.tight_layout()
    return figure


def along_training(shown: Mapping[str, dict]) -> Figure:
    """BLEU kept, loss added and unevenness along training, a colour a model.

    Thin lines are trainings, the thick one is their mean. Dotted is what random orders give,
    where they were measured.

    Args:
        shown: name -> values of a result; those without a checkpoint in common are no hindrance.
    """
    with style():
        figure, panels = plt.subplots(1, 3, figsize=(13, 4.4))
        for (name, values), colour in zip(shown.items(), itertools.cycle(_MODELS)):
            trainings = [
                [point for point in points if point["updates"]] for points in _trainings(values)
            ]
            for axes, measure, scale in zip(
                panels, ("kept_at", "added_loss", "gini_within"), (100, 1, 1), strict=True
            ):
                _lines(axes, trainings, _of(measure, scale), "-", label=name, color=colour)
            for axes, measure, scale in zip(
                panels, ("kept_random", "added_loss_random"), (100, 1), strict=False
            ):
                if all(point[measure] is not None for points in trainings for point in points):
                    label = f"{name}, random orders"
                    _lines(axes, trainings, _of(measure, scale), ":", label=label, color=colour)
        at = next((f"{values['removed']:.0%}" for values in shown.values()), "")
        for axes, label in zip(
            panels,
            (
                f"BLEU kept, {at} removed (%)",
                f"loss added, {at} removed (nats a piece)",
                "Gini coefficient within layers",
            ),
            strict=True,
        ):
            axes.set(xlabel="updates", ylabel=label, xscale="log", ylim=(0, None))
        panels[0].legend(fontsize=9, loc="lower right")
        figure.tight_layout()
    return figure


def _lines(
    axes: Axes, trainings: Sequence[Points], of: Callable[[Points], np.ndarray], line: str, **look
) -> None:
    """A thin line a training, and their mean where all of them were measured, straight between."""
    if len(trainings) > 1:
        for points in trainings:
            thin = {**look, "label": None, "alpha": 0.5}
            axes.plot(_updates(points), of(points), f"{line}o", linewidth=0.8, markersize=2, **thin)
    at = common_updates([_updates(points) for points in trainings])
    curves = [np.interp(np.log(at), np.log(_updates(points)), of(points)) for points in trainings]
    axes.plot(at, np.mean(curves, axis=0), f"{line}o", markersize=4, linewidth=2, **look)


def common_updates(trainings: Sequence[np.ndarray]) -> np.ndarray:
    """All updates at which one of the trainings was measured, where all of them have begun.

    >>> common_updates([np.array([2, 8, 16]), np.array([4, 16])])
    array([ 4,  8, 16])
    """
    every = np.unique(np.concatenate(trainings))
    first, last = max(map(min, trainings)), min(map(max, trainings))
    return every[(every >= first) & (every <= last)]


def _look(updates: int, first: int, last: int) -> dict[str, Any]:
    """Dark to light with the logarithm of the updates; the untrained model is grey and dashed."""
    if not updates:
        return {"color": GREY, "linestyle": "--"}
    along = np.log(updates / first) / np.log(max(last / first, 2))
    return {"color": sns.color_palette("viridis", as_cmap=True)(0.95 * along)}


def _trainings(values: Mapping[str, Any]) -> list[Points]:
    return [training["checkpoints"] for training in values["trainings"]]


def _updates(points: Points) -> np.ndarray:
    return _values(points, "updates")


def _values(points: Points, name: str) -> np.ndarray:
    return np.array([point[name] for point in points])


def _of(measure: str, scale: float) -> Callable[[Points], np.ndarray]:
    return lambda points: scale * _values(points, measure)
