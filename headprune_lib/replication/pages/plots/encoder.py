"""The encoder half: one function a figure, from a result's values, the paper's value beside."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headprune_lib.replication.claims.kept import HEADS
from headprune_lib.replication.claims.rules import share_judged, task_judged
from headprune_lib.replication.measurements import half_of
from headprune_lib.replication.pages.plots.orders import looks
from headprune_lib.replication.pages.plots.style import (
    BLACK,
    BLUE,
    BROWN,
    GREEN,
    GREY,
    ORANGE,
    PINK,
    PURPLE,
    WIDE,
    Layout,
    below,
    estimates,
    pruning_axes,
    pruning_curve,
    share_in_the_paper,
    style,
)
from headprune_lib.replication.pages.tables import paper, shown_orders
from headprune_lib.replication.published import bert_curve
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import spelled

__all__ = [
    "figure3b",
    "orders",
    "table4",
]

ACCURACY_CHANGE = "change of accuracy (points)"


def figure3b(curve: Result, layout: Layout = WIDE) -> Figure:
    """The score against the share of heads removed; see :func:`orders`."""
    with style():
        figure, axes = plt.subplots(figsize=layout.canvas(400 if layout.columns > 1 else 320))
        orders(axes, curve)
        below(figure, layout)
    return figure


def orders(axes: Axes, curve: Result, counted: bool = True) -> None:
    """A line an order of a pruning curve, the paper's own the widest.

    Beside them chance, the paper's share that the result is judged at by C3's rule, and on a task of
    the paper BERT-base by importance, as others measured it.

    Args:
        counted: as of :func:`pruning_curve`.
    """
    values, half = curve.values, half_of(curve.key)
    shares, scale = 100 * np.array(values["shares"]), 1 if curve.metric == "BLEU" else 100
    for name, look in looks(shown_orders(values)).items():
        widest = {"linewidth": 4, "zorder": 3} if name == "importance" else {"linewidth": 1.6}
        pruning_curve(
            axes, shares, values["curves"][name], *look, scale=scale, counted=counted, **widest
        )
    bert_by_others(axes, curve.task)
    if values["chance"]:
        axes.axhline(
            100 * values["chance"], color=BLACK, linewidth=1, linestyle=":", label="chance"
        )
    judged = task_judged(curve.task, half)
    name = spelled(judged) if half == "encoder" else judged.upper()
    share_in_the_paper(axes, share_judged(curve.task, half), name)
    pruning_axes(axes, curve.metric if scale == 1 else f"{curve.metric} (%)")


def bert_by_others(axes: Axes, task: str) -> None:
    """BERT-base's score by importance, on a task of the paper that others measured again."""
    if (curve := bert_curve(task)) is None:
        return
    axes.plot(
        100 * np.array([0, *curve["heads_removed"]]) / HEADS,
        100 * np.array([curve["base"], *curve["score"]]),
        ":",
        color=GREY,
        label="BERT-base, measured by others",
    )


def table4(values: dict, others: Mapping[str, Result], layout: Layout = WIDE) -> Figure:
    """How many times as fast the pruned model is at each batch size; interval and the paper's.

    Args:
        others: name -> result of another fine-tuned model.
    """
    lines = [
        ("MiniLM, real sentences", values["finetuned"], BLUE, "o-"),
        ("BERT-base's shape, random weights", values["shape"], ORANGE, "^--"),
    ]
    lines += [
        (name, other.values["finetuned"], colour, "v-.")
        for (name, other), colour in zip(
            others.items(), itertools.cycle((PURPLE, BROWN, PINK, GREY))
        )
    ]
    published = paper("table4")
    ratios = np.array(published["pruned50"]["mean"]) / np.array(published["original"]["mean"])
    with style():
        figure, axes = plt.subplots(figsize=layout.canvas(300))
        for number, (label, timed, colour, form) in enumerate(lines):
            rows = timed["speed"]
            sizes = np.array([row["batch_size"] for row in rows])
            estimates(
                axes,
                (0.96 + 0.08 * number) * sizes,
                np.array([row["ratio"] for row in rows]),
                [row["interval"] for row in rows],
                form,
                told_at=sizes,
                color=colour,
                label=label,
            )
        axes.plot(
            published["batch_size"],
            ratios,
            "s:",
            color=GREEN,
            label="the paper (BERT-base, GTX 1080 Ti)",
        )
        axes.axhline(1, color=BLACK, linewidth=1)
        axes.set_xscale("log", base=2)
        ticks = [row["batch_size"] for row in values["finetuned"]["speed"]]
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set(xlabel="batch size (sentences)", ylabel="speed, pruned / unpruned")
        below(figure, layout)
    return figure
