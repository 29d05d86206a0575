"""Figure 5: what pruning costs at checkpoints of trainings, and what grows from one to the next."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headprune_lib.replication.measurements.along_training import translating
from headprune_lib.replication.pages.plots.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    WIDE,
    Layout,
    below,
    style,
)
from headprune_lib.replication.pages.plots.style import estimates as with_intervals
from headprune_lib.replication.published import independent_curves, paper

__all__ = [
    "along_training",
    "checkpoints",
    "figure5",
]

_SHOWN_SHARES = (20, 40, 60, 80)
_LOOKS = tuple(zip((BLUE, ORANGE, PURPLE, RED), "os^D", strict=True))
Points = Sequence[Mapping[str, Any]]
"""The checkpoints of a training, in order of updates."""


def figure5(shown: Mapping[str, dict], layout: Layout = WIDE) -> Figure:
    """Share of BLEU kept by epoch, a line a share removed: others' IWSLT model first, then ours.

    Args:
        shown: name -> values of a result; trainings of one are drawn as their mean at the epochs
            that all of them have.
    """
    again = independent_curves()["figure5"]
    theirs = {float(epoch): bleu for epoch, bleu in again["bleu_by_epoch"].items()}
    panels = {
        "the paper's IWSLT model, by others": {
            removed: {
                epoch: bleu[again["percent_removed"].index(removed)] / bleu[0]
                for epoch, bleu in sorted(theirs.items())
            }
            for removed in _SHOWN_SHARES
        }
    }
    for name, values in shown.items():
        at = {removed: _step(values, removed) for removed in _SHOWN_SHARES}
        panels[name] = {removed: _kept_by_epoch(values, step) for removed, step in at.items()}
    low, high = (100 * end for end in paper("figure5")["kept_at_40_percent_pruned_from_epoch_10"])
    with style():
        figure, places = layout.panels(len(panels), 300, sharey=True)
        for axes, (name, lines) in zip(places, panels.items(), strict=True):
            for (removed, kept), (colour, mark) in zip(lines.items(), _LOOKS, strict=True):
                axes.plot(
                    list(kept),
                    [100 * share for share in kept.values()],
                    f"{mark}-",
                    color=colour,
                    markersize=5,
                    label=f"{removed}% removed",
                )
            axes.axhspan(
                low,
                high,
                color=GREEN,
                alpha=0.3,
                linewidth=0,
                label="the paper: 40% removed, from epoch 10 on",
            )
            axes.set(xlabel="epoch", title=name.replace(", ", ",\n"), ylim=(0, 115), xlim=(0, None))
        for axes in places[:: layout.columns]:
            axes.set(ylabel="BLEU kept (%)")
        below(figure, layout, columns=3)
    return figure


def _step(values: Mapping[str, Any], removed: int) -> int:
    return int(np.argmin(np.abs(100 * np.array(values["shares"]) - removed)))


def _kept_by_epoch(values: Mapping[str, Any], step: int) -> dict[float, float]:
    """Epoch -> what is kept, mean of the trainings measured there that translate anything."""
    found: dict[float, list[float]] = {}
    for points in _trainings(values):
        for point in translating(points):
            found.setdefault(round(point["epoch"], 2), []).append(point["kept"][step])
    return {epoch: float(np.mean(kept)) for epoch, kept in sorted(found.items())}


def checkpoints(values: dict, layout: Layout = WIDE) -> Figure:
    """Loss against share removed, a line a checkpoint; Gini coefficients beside.

    The first training's lines are named, those of further trainings are thin.
    """
    shares, trainings = 100 * np.array(values["shares"]), _trainings(values)
    at = [point["updates"] for points in trainings for point in points if point["updates"]]
    with style():
        figure, (left, right) = layout.panels(2, 300)
        for i, points in enumerate(trainings):
            for point in points:
                look = _look(point["updates"], min(at), max(at)) | {"linewidth": 0.8 if i else 2}
                label = f"epoch {point['epoch']:.3g} (BLEU {point['bleu'][0]:.1f})"
                left.plot(shares, point["loss"], label=None if i else label, **look)
        left.set(
            xlabel="heads removed (%)", ylabel="loss of references (nats a piece)", xlim=(0, 100)
        )
        for name, label, colour, mark in (
            ("gini", "Gini, all heads", BLUE, "o-"),
            ("gini_within", "Gini, within layers", ORANGE, "s--"),
        ):
            for i, points in enumerate(trainings):
                with_intervals(
                    right,
                    _updates(points),
                    _values(points, name),
                    [point[f"{name}_interval"] for point in points],
                    mark,
                    color=colour,
                    linewidth=1 if i else 2,
                    label=None if i else label,
                )
        right.set(xlabel="updates", ylabel="Gini coefficient of importance", ylim=(0, None))
        right.xaxis.set_major_locator(MaxNLocator(4))
        below(figure, layout, columns=3)
    return figure


def along_training(shown: Mapping[str, dict], layout: Layout = WIDE) -> Figure:
    """BLEU kept, loss added and unevenness along training, a colour a model.

    Thin lines are trainings, the thick one is their mean. Dotted is what random orders give,
    where they were measured.

    Args:
        shown: name -> values of a result; those without a checkpoint in common are no hindrance.
    """
    at = next((f"{values['removed']:.0%}" for values in shown.values()), "")
    labels = (
        f"BLEU kept, {at} removed (%)",
        f"loss added, {at} removed (nats)",
        "Gini within layers",
    )
    with style():
        figure, panels = layout.panels(3, 280)
        for (name, values), colour in zip(
            shown.items(), itertools.cycle((BLUE, ORANGE, PURPLE, RED))
        ):
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
        for axes, label in zip(panels, labels, strict=True):
            axes.set(xlabel="updates", ylabel=label, xscale="log", ylim=(0, None))
            axes.xaxis.set_major_formatter("{x:,.0f}")  # exponents would be too small to read
        below(figure, layout)
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
