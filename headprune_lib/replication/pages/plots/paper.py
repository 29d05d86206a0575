"""Figures of the paper's sections, from results' values, with the paper's values alongside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headprune_lib.replication.claims.rules import share_judged
from headprune_lib.replication.formatting import NOT_MEASURED
from headprune_lib.replication.measurements import half_of
from headprune_lib.replication.measurements.along_training import translating
from headprune_lib.replication.pages.frames import frame, step_at
from headprune_lib.replication.pages.plots.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SERIES,
    WIDE,
    Layout,
    below,
    estimates,
    looks,
    mark,
    model_look,
    pruning_axes,
    pruning_curve,
    weight,
    within,
)
from headprune_lib.replication.pages.tables.markup import shown_orders
from headprune_lib.replication.paper import ARTIFACTS
from headprune_lib.replication.published import (
    bert_curve,
    bert_steps,
    independent_curves,
    paper,
    published_share,
    published_task,
)
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import spelled


def figure3b(curve: Result, layout: Layout = WIDE) -> Figure:
    """The score against the share of heads removed; see :func:`orders`."""
    figure, axes = plt.subplots(figsize=layout.canvas(400 if layout.columns > 1 else 320))
    orders(axes, curve)
    return below(figure, layout)


_VARIANTS = {
    *("importance main", "importance rescored"),
    *("importance unnormalised", "importance reversed"),
}
"""Orders of a curve that its figure leaves out because other pages compare them."""


def orders(axes: Axes, curve: Result, counted: bool = True) -> None:
    """Draw a pruning curve's orders except variants of importance, the paper's order the widest.

    Also drawn are chance, the paper's share at which C3's rule judges the result, and, on a task of
    the paper, BERT-base's curve by importance as others measured it.

    Args:
        counted: as in :func:`pruning_curve`.
    """
    values, half = curve.values, half_of(curve)
    shares, scale = 100 * np.array(values["shares"]), 1 if curve.metric == "BLEU" else 100
    shown = [name for name in shown_orders(values) if name not in _VARIANTS]
    for name, look in looks(shown).items():
        pruning_curve(
            axes,
            shares,
            values["curves"][name],
            *look,
            scale=scale,
            counted=counted,
            **weight(name),
        )
    bert_by_others(axes, curve.task)
    if values["chance"]:
        axes.axhline(100 * values["chance"], color=BLACK, linewidth=1, label="chance")
    share_in_the_paper(axes, share_judged(curve.task, half))
    pruning_axes(axes, curve.metric if scale == 1 else f"{curve.metric} (%)")


def share_in_the_paper(axes: Axes, share: float) -> None:
    """Draw a line where the paper's curve begins to fall, read by eye."""
    dash, label = (0, (6, 2)), "the paper: level up to here"
    axes.axvline(100 * share, color=GREEN, linewidth=2, linestyle=dash, label=label)


def bert_by_others(axes: Axes, task: str) -> None:
    """Draw BERT-base's score by importance, if others measured it on this task of the paper."""
    if (curve := bert_curve(task)) is None:
        return
    shares, scores = bert_steps(curve)
    label = "BERT-base, measured by others"
    axes.plot(100 * shares, 100 * scores, "--", color=GREY, label=label)


_APART = [colour for colour in SERIES if colour not in (GREEN, GREY)]
"""Line colours for a panel in which green is the paper's and grey is others'."""


def layers_tasks(table6: Mapping[str, Result], layout: Layout = WIDE) -> Figure:
    """Table 6 with its intervals, next to the paper's twelve numbers.

    Models whose number of layers differs from the paper's are left out.
    """
    published = paper("table6")["delta_accuracy_percent"]
    layers = np.arange(1, len(published) + 1)
    drawn = {name: table for name, table in table6.items() if len(frame(table)) == len(layers)}
    figure, (axes,) = layout.panels(1, 280)
    within(axes, -1, 0, "a loss of at most 1 point")
    for position, (name, table) in enumerate(drawn.items()):
        rows = frame(table)
        estimates(
            axes,
            rows["layer"] + 1 + 0.17 * (position - len(drawn) / 2),
            rows["delta"],
            rows[["interval_low", "interval_high"]],
            mark(table),
            scale=100,
            told_at=rows["layer"] + 1,
            color=_APART[position % len(_APART)],
            label=name,
        )
    x = layers + 0.17 * len(drawn) / 2
    axes.plot(x, published, "D", color=GREEN, markersize=5, label="the paper")
    axes.axhline(0, color=BLACK, linewidth=1)
    axes.set(xlabel="layer", ylabel="change of accuracy (points)", xticks=layers)
    return below(figure, layout)


def figure6(panels: Mapping[str, Mapping[str, Result]], layout: Layout = WIDE) -> Figure:
    """Figure 6a–d, one panel each: the score, in its own unit, as heads are removed by importance.

    Colours and markers tell the models' lines apart. Also drawn are BERT-base's line, where others
    repeated the paper's figure, and the share at which the paper's own curve begins to fall.

    Args:
        panels: the paper's name of a panel, such as ``"figure6a"`` -> name -> pruning curve.
    """
    figure, places = layout.panels(len(panels), 230, columns=2)
    for axes, (name, curves) in zip(places, panels.items(), strict=True):
        task, score = "", ""
        for label, result in curves.items():
            scale = 1 if result.metric == "BLEU" else 100
            task, score = result.task, _SCORES.get(result.metric, result.metric)
            x = 100 * np.array(result.values["shares"])
            y = scale * np.array(result.values["curves"]["importance"]["mean"])
            label = _model_title(label) if scale == 1 else label.partition(",")[0]
            form, colour = model_look(result)
            axes.plot(x, y, f"{form}-", color=colour, markersize=5, label=label)
        bert_by_others(axes, ARTIFACTS[name].task)
        if not curves:
            axes.text(50, 0.5, NOT_MEASURED, ha="center", va="center")
        if task and (share := published_share(task)) is not None:
            share_in_the_paper(axes, share)
            axes.set_title(f"({name[-1]}) {_task_title(task)}: {share:.0%} in the paper")
        pruning_axes(axes, score)
    return below(figure, layout)


_SCORES = {"accuracy": "accuracy (%)", "matthews": "Matthews correlation × 100", "f1": "F1 (%)"}


def _task_title(task: str) -> str:
    """The name of the paper's task that one of ours stands for."""
    published = spelled(published_task(task))
    return published.upper() if published == "iwslt" else published


def _model_title(name: str) -> str:
    """Shorten a translator's name for a panel that shows German to English only.

    >>> _model_title("post-norm translator of six epochs, German-English (Bible)")
    'post-norm of six epochs'
    """
    return name.replace(" translator", "").replace(", German-English", "").removesuffix(" (Bible)")


_SHOWN_SHARES = (20, 40, 60, 80)
_LOOKS = tuple(zip((BLUE, ORANGE, PURPLE, RED), "os^D", strict=True))


_LEVEL = 10  # the epoch from which on the paper's model keeps the same share


def figure5(shown: Mapping[str, dict], layout: Layout = WIDE) -> Figure:
    """Share of BLEU kept by epoch, a line per share removed: others' IWSLT model first, then ours.

    Args:
        shown: name -> values of a result, drawn as the mean of its trainings at the epochs that all
            of them have.
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
        panels[name] = {
            removed: _kept_by_epoch(values, step_at(values["shares"], removed / 100))
            for removed in _SHOWN_SHARES
        }
    low, high = (100 * end for end in paper("figure5")["kept_at_40_percent_pruned_from_epoch_10"])
    figure, places = layout.panels(len(panels), 300, sharey=True)
    for axes, (name, lines) in zip(places, panels.items(), strict=True):
        for (removed, kept), (colour, form) in zip(lines.items(), _LOOKS, strict=True):
            y, label = [100 * share for share in kept.values()], f"{removed}%"
            axes.plot(list(kept), y, f"{form}-", color=colour, markersize=5, label=label)
        axes.set(xlabel="epoch", title=name.replace(", ", ",\n"), ylim=(0, 115), xlim=(0, None))
        if (last := axes.get_xlim()[1]) > _LEVEL:
            look = {"color": GREEN, "alpha": 0.3, "linewidth": 0, "label": "the paper"}
            axes.axhspan(low, high, _LEVEL / last, **look)
    return below(figure, layout, columns=3, ylabel="BLEU kept (%)", everywhere=True)


def _kept_by_epoch(values: Mapping[str, Any], step: int) -> dict[float, float]:
    """Epoch -> mean share kept over trainings, at the epochs where all of them translate.

    A mean over some of the trainings would jump where one drops out.
    """
    by_epoch: dict[float, list[float]] = {}
    for training in values["trainings"]:
        for point in translating(training["checkpoints"]):
            by_epoch.setdefault(round(point["epoch"], 2), []).append(point["kept"][step])
    return {
        epoch: float(np.mean(kept))
        for epoch, kept in sorted(by_epoch.items())
        if len(kept) == len(values["trainings"])
    }
