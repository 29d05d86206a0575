"""Several models and tasks in one figure, the paper's values beside."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from headprune_lib.comparison import kept_above_chance, paper, published_share
from headprune_lib.naming import spelled
from headprune_lib.plots.encoder import two_domains
from headprune_lib.plots.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    layer_changes,
    pruning_axes,
    style,
)
from headprune_lib.results import Result
from headprune_lib.verdicts import C3_TOLERANCE

_COLOURS = {"sst2": BLUE, "reviews": PURPLE, "snli": ORANGE, "cola": RED, "mrpc": GREEN}
_PAPER_TASK = {"snli": "MNLI"}
_PANELS_A_ROW = 2


def one_head_tasks(found: list[Result], others: dict[str, np.ndarray]) -> Figure:
    """Change of accuracy with each head cut: a row a model and task, a dot a head.

    Args:
        found: results of Figure 1b.
        others: label -> changes in points that other laboratories measured.
    """
    rows = {f"{result.setting} (n = {result.n_examples:,})":
            [100 * head["delta"] for head in result.values["heads"]] for result in found}
    rows |= {label: changes.ravel() for label, changes in others.items()}
    spread = np.random.default_rng(0)
    with style():
        figure, axes = plt.subplots(figsize=(9.5, 1.2 + 0.75 * len(rows)))
        for place, (label, changes) in enumerate(rows.items()):
            heights = place + spread.uniform(-0.25, 0.25, len(changes))
            axes.plot(changes, heights, ".", color=GREY if label in others else BLUE, alpha=0.6)
        axes.axvspan(-1, 0, color=GREY, alpha=0.15, linewidth=0)
        axes.axvline(0, color="black", linewidth=1)
        axes.set(xlabel="change of accuracy, head cut (points; grey: within one point)",
                 yticks=range(len(rows)), yticklabels=list(rows))
        axes.invert_yaxis()
        figure.tight_layout()
    return figure


def layers_tasks(table3: list[Result], table6: list[Result]) -> Figure:
    """Tables 3 and 6 of models with 12 layers, a panel each, beside the paper's twelve numbers."""
    panels = (("table3", table3, "best head chosen on the test set"),
              ("table6", table6, "best head chosen on training sentences"))
    with style():
        figure, places = plt.subplots(2, 1, figsize=(9.5, 7.5), sharey=True)
        for axes, (artifact, found, title) in zip(places, panels, strict=True):
            for place, result in enumerate(found):
                layer_changes(axes, result.values["layers"], 100, 0.2 * (place - 0.5),
                              color=_COLOURS.get(result.task, GREY), label=result.setting)
            published = paper(artifact)["delta_accuracy_percent"]
            axes.plot(np.arange(1, len(published) + 1) + 0.3, published, "s", color="black",
                      markersize=4, label="the paper (BERT-base, MNLI)")
            axes.axhspan(-1, 0, color=GREY, alpha=0.15, label="within 1 point")
            axes.axhline(0, color="black", linewidth=1)
            axes.set(xlabel="layer", ylabel="change of accuracy (points)", title=title,
                     xticks=range(1, len(published) + 1))
            axes.legend(loc="lower right")
        figure.tight_layout()
    return figure


def domains_tasks(found: list[Result], measure: str = "loss") -> Figure:
    """Figure 2b of several models and tasks: a panel a domain of each; see :func:`figure2b`."""
    places = [(result, domain) for result in found for domain in result.values["correlations"]]
    with style():
        rows = -(-len(places) // _PANELS_A_ROW)
        figure = plt.figure(figsize=(9.5, 4.2 * rows))
        for number, (result, domain) in enumerate(places, start=1):
            axes = figure.add_subplot(rows, _PANELS_A_ROW, number)
            two_domains(axes, result.values, domain, measure, f"{result.setting}\n")
        figure.tight_layout()
    return figure


def pruned_tasks(curves: list[Result]) -> Figure:
    """What is kept of the score above chance as heads go by importance: a line a model and task.

    MPNet's lines are whole, MiniLM's dashed; the mean of the fine-tunings. Triangles point to the
    shares at which the paper's curves begin to fall.
    """
    with style():
        figure, axes = plt.subplots(figsize=(9.5, 6))
        for result in curves:
            shares = 100 * np.array(result.values["shares"])
            axes.plot(shares, 100 * kept_above_chance(result), "-" if result.model == "mpnet" else "--",
                      color=_COLOURS.get(result.task, GREY), label=result.setting)
        shown: list[float] = []
        for task in dict.fromkeys(result.task for result in curves):
            if (share := published_share(task)) is not None:
                height = 104 + 5 * shown.count(share)  # one above the other where shares are equal
                shown.append(share)
                axes.plot(100 * share, height, "v", color=_COLOURS[task], markersize=8,
                          linestyle="none", label=f"the paper, {_PAPER_TASK.get(task, spelled(task))}")
        bound = 100 * (1 - C3_TOLERANCE)
        axes.axhline(bound, color="black", linewidth=1, linestyle=":")
        axes.annotate(f"{C3_TOLERANCE:.0%} lost", (99, bound + 0.6), fontsize=9, ha="right")
        axes.axhline(0, color="black", linewidth=1)
        pruning_axes(axes, np.linspace(0, 100, 11), "kept of the score above chance (%)")
        figure.tight_layout()
    return figure
