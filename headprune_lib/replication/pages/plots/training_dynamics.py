"""Figure 5: what pruning costs at checkpoints of trainings, and what grows from one to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from headprune_lib.replication.measurements.along_training import translating
from headprune_lib.replication.pages.plots.style import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    RED,
    WIDE,
    Layout,
    below,
    style,
)
from headprune_lib.replication.published import independent_curves, paper

__all__ = [
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


def _trainings(values: Mapping[str, Any]) -> list[Points]:
    return [training["checkpoints"] for training in values["trainings"]]
