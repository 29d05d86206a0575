"""Pruning curves of several models and tasks on one scale."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from headprune_lib.comparison.tasks import setting_name
from headprune_lib.plots.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, pruning_axes, style
from headprune_lib.results import Result

_COLOURS = {"sst2": BLUE, "reviews": PURPLE, "snli": ORANGE, "cola": RED, "mrpc": GREEN}


def pruned_tasks(curves: list[Result]) -> Figure:
    """What is kept of the score above chance as heads go by importance: a line a model and task.

    MPNet's lines are whole, MiniLM's dashed; the mean of the fine-tunings.
    """
    shares = 100 * np.array(curves[0].values["shares"])
    with style():
        figure, axes = plt.subplots(figsize=(9.5, 6))
        for result in curves:
            scores, chance = np.array(result.values["curves"]["importance"]["mean"]), \
                result.values["chance"]
            kept = 100 * (scores - chance) / (scores[0] - chance)
            axes.plot(shares, kept, "-" if result.model == "mpnet" else "--",
                      color=_COLOURS.get(result.task, GREY), label=setting_name(result))
        axes.axhline(98, color="black", linewidth=1, linestyle=":")
        axes.annotate("2% lost", (99, 98.6), fontsize=9, ha="right")
        axes.axhline(0, color="black", linewidth=1)
        pruning_axes(axes, shares, "kept of the score above chance (%)")
        figure.tight_layout()
    return figure
