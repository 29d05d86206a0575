"""The encoder half: one function a figure, from a result's values, the paper's value beside."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headprune_lib.replication.pages.plots.orders import looks
from headprune_lib.replication.pages.plots.style import (
    BLUE,
    BROWN,
    GREEN,
    GREY,
    ORANGE,
    PINK,
    PURPLE,
    RED,
    dots,
    estimates,
    layer_changes,
    not_measured,
    pruning_axes,
    pruning_curve,
    style,
)
from headprune_lib.replication.pages.tables import (
    paper,
    published_share,
    published_task,
    shown_orders,
)
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import spelled

__all__ = [
    "figure1b",
    "figure2b",
    "figure3b",
    "table3",
    "table4",
]


def figure1b(values: dict) -> Figure:
    """Histogram of the change of accuracy with each head cut, and the same as layer × head map."""
    deltas = np.array([100 * head["delta"] for head in values["heads"]])
    layers = 1 + max(head["layer"] for head in values["heads"])
    grid = deltas.reshape(layers, -1)
    published = paper("figure1")["bert_accuracy_range"]
    base = paper("table3")["base_accuracy"]
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), width_ratios=[1, 1.25])
        left.axvspan(
            *(100 * (end - base) for end in published),
            color=ORANGE,
            alpha=0.2,
            zorder=0,
            linewidth=0,
            label="range in the paper (BERT-base, MNLI)",
        )
        sns.histplot(deltas, ax=left, color=BLUE, binwidth=0.1, alpha=0.9)
        left.axvline(0, color="black", linewidth=1)
        left.set(xlabel="change of accuracy, head cut (points)", ylabel="heads")
        left.legend(loc="lower left", bbox_to_anchor=(0, 1), fontsize=9, frameon=False)
        reach = max(1.0, float(np.abs(deltas).max()))
        sns.heatmap(
            grid,
            ax=right,
            cmap="RdBu",
            vmin=-reach,
            vmax=reach,
            annot=True,
            fmt=".1f",
            annot_kws={"size": 8},
            cbar_kws={"label": "change of accuracy (points)"},
            xticklabels=range(1, grid.shape[1] + 1),
            yticklabels=range(1, layers + 1),
        )
        right.set(xlabel="head", ylabel="layer")
        figure.tight_layout()
    return figure


def table3(chosen_on_test: dict, chosen_on_train: dict) -> Figure:
    """Change of accuracy with each layer reduced to its best head: two choices, and the paper's."""
    published = paper("table3")["delta_accuracy_percent"]
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), sharey=True)
        for values, label, colour, shift in (
            (chosen_on_test, "chosen on the test set (the paper's way)", BLUE, -0.12),
            (chosen_on_train, "chosen on training sentences", ORANGE, 0.12),
        ):
            layer_changes(left, values["layers"], 100, shift, color=colour, label=label)
        left.axhspan(-1, 0, color=GREY, alpha=0.15, label="within 1 point")
        left.legend(loc="lower right", fontsize=9)
        left.set(
            xlabel="layer",
            ylabel="change of accuracy (points)",
            title="here",
            xticks=[row["layer"] + 1 for row in chosen_on_test["layers"]],
        )
        right.plot(range(1, len(published) + 1), published, "o", color=GREEN)
        right.axhspan(-1, 0, color=GREY, alpha=0.15)
        right.set(
            xlabel="layer",
            xticks=range(1, len(published) + 1),
            title="the paper, Table 3 (BERT-base, MNLI)",
        )
        for axes in (left, right):
            axes.axhline(0, color="black", linewidth=1)
        figure.tight_layout()
    return figure


def figure2b(values: dict, measure: str = "loss") -> Figure:
    """Effect of each cut in domain against out of domain, a panel a domain."""
    domains = list(values["correlations"])
    if not domains:  # the task has no other text
        return not_measured()
    with style():
        figure, panels = plt.subplots(
            1, len(domains), figsize=(3.8 * len(domains), 4), sharex=True, squeeze=False
        )
        for axes, domain in zip(panels[0], domains, strict=True):
            two_domains(axes, values, domain, measure)
        figure.tight_layout()
    return figure


def two_domains(axes: Axes, values: dict, domain: str, measure: str, name: str = "") -> None:
    """One panel of Figure 2b; ``measure`` is ``"loss"`` or ``"accuracy"``."""
    home = values["in_domain"]
    scale, unit = {"loss": (1, "log-loss (nats)"), "accuracy": (100, "accuracy (points)")}[measure]
    x, y = (
        [scale * head[f"{measure} {text}"] for head in values["heads"]] for text in (home, domain)
    )
    dots(
        axes, x, y, values["correlations"][domain][measure]["pearson"], f"{name}{spelled(domain)}: "
    )
    axes.set(xlabel=f"{spelled(home)}: change of\n{unit}", ylabel=f"change of {unit}")
    axes.xaxis.set_major_locator(MaxNLocator(4))


def figure3b(values: dict | None, task: str) -> Figure:
    """Accuracy against the share of heads removed, a line an order; chance and the paper's share.

    Args:
        values: those of a pruning curve's result; None if it was not measured.
        task: its task, whose share in the paper is marked; MNLI's where the paper has none.
    """
    if values is None:
        return not_measured()
    shares = 100 * np.array(values["shares"])
    published = task if published_share(task) is not None else "mnli"
    with style():
        figure, axes = plt.subplots(figsize=(9.5, 6.2))
        for name, look in looks(shown_orders(values)).items():
            pruning_curve(axes, shares, values["curves"][name], *look, scale=100)
        axes.axhline(100 * values["chance"], color="black", linewidth=1, linestyle=":")
        axes.annotate("chance (the larger class)", (1, 100 * values["chance"] + 0.6), fontsize=9)
        share, top = 100 * published_share(published), axes.get_ylim()[1] + 4
        axes.axvline(share, color=GREEN, linewidth=2)
        axes.annotate(
            f"the paper: up to here without noticeable loss ({spelled(published_task(published))})",
            (share + 1, top - 0.6),
            color=GREEN,
            fontsize=9,
            va="top",
        )
        pruning_axes(axes, shares, "accuracy (%)")
        axes.set_ylim(axes.get_ylim()[0], top)
        figure.tight_layout()
    return figure


def table4(values: dict, others: Mapping[str, Result]) -> Figure:
    """How many times as fast the pruned model is at each batch size; interval and the paper's.

    Args:
        others: name -> result of another fine-tuned model.
    """
    lines = [
        ("this model, real sentences", values["finetuned"], BLUE),
        ("the second shape, random weights", values["shape"], ORANGE),
    ]
    lines += [
        (name, other.values["finetuned"], colour)
        for (name, other), colour in zip(
            others.items(), itertools.cycle((PURPLE, BROWN, PINK, RED, GREY))
        )
    ]
    published = paper("table4")
    ratios = np.array(published["pruned50"]["mean"]) / np.array(published["original"]["mean"])
    with style():
        figure, axes = plt.subplots(figsize=(8, 4))
        for number, (label, timed, colour) in enumerate(lines):
            rows = timed["speed"]
            x = (0.96 + 0.08 * number) * np.array([row["batch_size"] for row in rows])
            y = np.array([row["ratio"] for row in rows])
            estimates(
                axes, x, y, [row["interval"] for row in rows], "o-", color=colour, label=label
            )
        axes.plot(
            published["batch_size"],
            ratios,
            "s--",
            color=GREEN,
            label="the paper (BERT-base, GTX 1080 Ti)",
        )
        axes.axhline(1, color="black", linewidth=1)
        axes.set_xscale("log", base=2)
        ticks = [row["batch_size"] for row in values["finetuned"]["speed"]]
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set(xlabel="batch size (sentences)", ylabel="speed, pruned / unpruned")
        axes.legend(fontsize=9, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
        figure.tight_layout()
    return figure
