"""The translation half: one function a figure, from a result's values, the paper's value beside."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headprune_lib.replication.pages.plots.orders import looks
from headprune_lib.replication.pages.plots.style import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    RED,
    dots,
    layer_changes,
    pruning_axes,
    pruning_curve,
    style,
)
from headprune_lib.replication.pages.tables import paper, published_share
from headprune_lib.replication.pages.tables.pages import estimate

__all__ = [
    "figure1a",
    "figure2a",
    "figure3a",
    "figure4",
    "quality",
    "search",
    "table2",
]

KINDS = {"enc-enc": BLUE, "enc-dec": RED, "dec-dec": GREEN}
_MODELS = (BLUE, ORANGE, GREEN, RED)
_BLEU_CHANGE = "change of BLEU"


def quality(values: Mapping[str, dict]) -> Figure:
    """Learning curves: validation BLEU after each epoch, a line a model."""
    with style():
        figure, axes = plt.subplots(figsize=(8, 4.2))
        for (task, model), colour in zip(values.items(), itertools.cycle(_MODELS)):
            curve = model["curve"]
            axes.plot(
                [record["epoch"] for record in curve],
                [record["bleu"] for record in curve],
                "o-",
                color=colour,
                label=task,
            )
        axes.set(xlabel="epoch", ylabel="validation BLEU, greedy", ylim=(0, None))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(fontsize=9, loc="lower right")
        figure.tight_layout()
    return figure


def search(values: dict) -> Figure:
    """Change of BLEU with greedy search against beam 5, a dot a cut."""
    rank = values["spearman"]["all"]
    with style():
        figure, axes = plt.subplots(figsize=(6, 4.6))
        for alone, label, colour in (
            (False, "one head cut", BLUE),
            (True, "one head left in a layer", ORANGE),
        ):
            x, y = (
                [cut[f"beam {beams}"] for cut in values["cuts"] if cut["alone"] == alone]
                for beams in (1, 5)
            )
            axes.plot(x, y, "o", color=colour, alpha=0.8, label=label)
        axes.axline((0, 0), slope=1, color="black", linewidth=1, linestyle=":")
        if rank["r"] is not None:
            axes.set_title(f"Spearman {estimate(rank['r'], rank['interval'])}")
        axes.set(xlabel="greedy: change of BLEU", ylabel="beam 5: change of BLEU")
        axes.legend(fontsize=9)
        figure.tight_layout()
    return figure


def figure1a(values: dict) -> Figure:
    """Histogram of the change of BLEU with each head cut, and a layer × head map, for each kind.

    A head or two can cost many times what the others do: the axes end where 98% of the heads lie,
    and what is beyond is written out.
    """
    published = paper("figure1")["wmt_bleu_range"]
    base = paper("table1")["base_bleu"]
    changes = np.array([head["delta"] for head in values["heads"]])
    reach = float(np.ceil(10 * max(0.5, np.quantile(np.abs(changes), 0.98))) / 10)
    bins = np.linspace(-reach, reach, 31)
    with style():
        figure, panels = plt.subplots(2, 3, figsize=(13, 7.2), height_ratios=[1, 1.1])
        for kind, top, below in zip(KINDS, *panels, strict=True):
            grid = _grid(values["heads"], kind)
            if kind == "enc-enc":
                top.axvspan(
                    *(end - base for end in published),
                    color=ORANGE,
                    alpha=0.2,
                    zorder=0,
                    linewidth=0,
                    label="range in the paper",
                )
                top.legend(fontsize=9, loc="upper left")
            sns.histplot(grid.ravel(), ax=top, color=KINDS[kind], bins=bins, alpha=0.9)
            beyond = np.sort(grid[np.abs(grid) > reach])
            if len(beyond):
                top.text(
                    0.02,
                    0.6,
                    "off the scale:\n" + "\n".join(f"{one:+.1f}" for one in beyond),
                    transform=top.transAxes,
                    fontsize=9,
                )
            top.axvline(0, color="black", linewidth=1)
            top.set(
                title=kind, xlabel=f"{_BLEU_CHANGE}, head cut", ylabel="heads", xlim=(-reach, reach)
            )
            marks = np.where(np.abs(grid) > reach, np.char.mod("%.1f", grid), "")
            sns.heatmap(
                grid,
                ax=below,
                cmap="RdBu",
                vmin=-reach,
                vmax=reach,
                annot=marks,
                fmt="",
                annot_kws={"fontsize": 7},
                cbar=kind == "dec-dec",
                cbar_kws={"label": _BLEU_CHANGE},
                xticklabels=range(1, grid.shape[1] + 1),
                yticklabels=range(1, grid.shape[0] + 1),
            )
            below.tick_params(labelsize=8)
            below.set(xlabel="head", ylabel="layer")
        figure.tight_layout()
    return figure


def table2(chosen_on_test: dict, chosen_on_valid: dict) -> Figure:
    """Change of BLEU with each layer reduced to its best head, a panel a kind; two choices."""
    with style():
        figure, panels = plt.subplots(1, 3, figsize=(13, 4.2), sharey=True)
        for kind, axes in zip(KINDS, panels, strict=True):
            for values, label, colour, shift in (
                (chosen_on_test, "chosen on the test set (Table 2's way)", BLUE, -0.15),
                (chosen_on_valid, "chosen on other chapters (Table 5's)", ORANGE, 0.0),
            ):
                rows = [row for row in values["layers"] if row["kind"] == kind]
                layer_changes(axes, rows, 1, shift, color=colour, label=label)
            published = paper("table5")[kind]["delta_bleu"]
            axes.plot(
                np.arange(1, len(published) + 1) + 0.15,
                published,
                "s",
                color=GREEN,
                label="the paper, Table 5",
            )
            axes.axhline(0, color="black", linewidth=1)
            axes.set(title=kind, xlabel="layer", xticks=range(1, len(published) + 1))
        panels[0].set(ylabel=_BLEU_CHANGE)
        panels[0].legend(fontsize=9, loc="lower left")
        figure.tight_layout()
    return figure


def figure2a(values: dict) -> Figure:
    """Effect of each encoder cut on the test verses against another English: BLEU, and loss."""
    with style():
        figure, panels = plt.subplots(1, 2, figsize=(10, 4.4))
        for axes, measure, unit in (
            (panels[0], "bleu", "BLEU"),
            (panels[1], "loss", "loss of the uncut translation\n(nats a verse)"),
        ):
            x, y = (
                [head[f"{measure} {place}"] for head in values["heads"]]
                for place in ("home", "far")
            )
            dots(axes, x, y, values["correlations"][measure]["pearson"])
            axes.set(xlabel=f"in domain: change of {unit}", ylabel="King James: the same")
        figure.tight_layout()
    return figure


def figure3a(values: dict, task: str = "enfr") -> Figure:
    """BLEU against the share of heads removed, a line an order, and the paper's share for the task."""
    shares, curves = 100 * np.array(values["shares"]), values["curves"]
    with style():
        figure, axes = plt.subplots(figsize=(9.5, 6))
        for name, look in looks(curves).items():
            pruning_curve(axes, shares, curves[name], *look)
        if (published := published_share(task)) is not None:
            axes.axvline(100 * published, color=GREEN, linewidth=2)
            axes.annotate(
                "the paper: up to here without noticeable loss",
                (100 * published + 1, 1.5),
                color=GREEN,
                fontsize=9,
            )
        pruning_axes(axes, shares, "BLEU")
        axes.set_ylim(0, None)
        figure.tight_layout()
    return figure


def figure4(values: dict, joint: dict) -> Figure:
    """BLEU as heads of one kind are removed, random orders as bands; all kinds at once beside."""
    shares, curves = 100 * np.array(values["shares"]), values["curves"]
    with style():
        figure, axes = plt.subplots(figsize=(9.5, 6))
        for kind, colour in KINDS.items():
            for order, label, line in (
                ("importance", "by importance", "-"),
                ("random", "random", ":"),
            ):
                pruning_curve(
                    axes, shares, curves[f"{kind} {order}"], f"{kind}, {label}", colour, line
                )
        pruning_curve(
            axes,
            shares,
            joint["curves"]["importance"],
            "all kinds together (share of all heads)",
            PURPLE,
            "--",
        )
        pruning_axes(axes, shares, "BLEU", "% of the kind")
        axes.set_ylim(0, None)
        figure.tight_layout()
    return figure


def _grid(heads: list[dict], kind: str) -> np.ndarray:
    own = [head for head in heads if head["kind"] == kind]
    return np.array([head["delta"] for head in own]).reshape(own[-1]["layer"] + 1, -1)
