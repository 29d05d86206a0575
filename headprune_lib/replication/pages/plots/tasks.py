"""Several models and tasks in one figure, name -> result, the paper's values beside."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.figure import Figure

from headprune_lib.replication.pages.plots.encoder import two_domains
from headprune_lib.replication.pages.plots.style import (
    BLUE,
    GREY,
    layer_changes,
    not_measured,
    pruning_axes,
    style,
)
from headprune_lib.replication.pages.tables import paper, published_share, published_task
from headprune_lib.replication.pages.values import kept_above_chance
from headprune_lib.replication.stats.bounds import SHOWN_TOLERANCE
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import spelled

__all__ = [
    "domains_tasks",
    "layers_tasks",
    "one_head_tasks",
    "pruned_tasks",
]

_LINES = ("-", "--", ":", "-.")
_PANELS_A_ROW = 2


def one_head_tasks(shown: Mapping[str, Result], others: Mapping[str, np.ndarray]) -> Figure:
    """Change of accuracy with each head cut: a row a model and task, a dot a head.

    Args:
        shown: name -> result of Figure 1b.
        others: label -> changes in points that other laboratories measured.
    """
    rows = {
        f"{name} (n = {result.n_examples:,})": np.array(
            [100 * head["delta"] for head in result.values["heads"]]
        )
        for name, result in shown.items()
    }
    rows |= {label: changes.ravel() for label, changes in others.items()}
    spread = np.random.default_rng(0)
    with style():
        figure, axes = plt.subplots(figsize=(9.5, 1.2 + 0.75 * len(rows)))
        for place, (label, changes) in enumerate(rows.items()):
            heights = place + spread.uniform(-0.25, 0.25, len(changes))
            axes.plot(changes, heights, ".", color=GREY if label in others else BLUE, alpha=0.6)
        axes.axvspan(-1, 0, color=GREY, alpha=0.15, linewidth=0)
        axes.axvline(0, color="black", linewidth=1)
        axes.set(
            xlabel="change of accuracy, head cut (points; grey: within one point)",
            yticks=range(len(rows)),
            yticklabels=list(rows),
        )
        axes.invert_yaxis()
        figure.tight_layout()
    return figure


def layers_tasks(table3: Mapping[str, Result], table6: Mapping[str, Result]) -> Figure:
    """Tables 3 and 6, a panel each, beside the paper's twelve numbers.

    Models with another number of layers than the paper's are left out.
    """
    panels = (
        ("table3", table3, "best head chosen on the test set"),
        ("table6", table6, "best head chosen on training sentences"),
    )
    colours = _colours([*table3.values(), *table6.values()])
    with style():
        figure, places = plt.subplots(2, 1, figsize=(9.5, 7.5), sharey=True)
        for axes, (artifact, shown, title) in zip(places, panels, strict=True):
            published = paper(artifact)["delta_accuracy_percent"]
            drawn = {
                name: result
                for name, result in shown.items()
                if len(result.values["layers"]) == len(published)
            }
            for place, (name, result) in enumerate(drawn.items()):
                layer_changes(
                    axes,
                    result.values["layers"],
                    100,
                    0.2 * (place - 0.5),
                    color=colours[result.task],
                    label=name,
                )
            axes.plot(
                np.arange(1, len(published) + 1) + 0.2 * max(len(drawn), 2) - 0.1,
                published,
                "s",
                color="black",
                markersize=4,
                label="the paper (BERT-base, MNLI)",
            )
            axes.axhspan(-1, 0, color=GREY, alpha=0.15, label="within 1 point")
            axes.axhline(0, color="black", linewidth=1)
            axes.set(
                xlabel="layer",
                ylabel="change of accuracy (points)",
                title=title,
                xticks=range(1, len(published) + 1),
            )
            axes.legend(loc="lower right")
        figure.tight_layout()
    return figure


def domains_tasks(shown: Mapping[str, Result], measure: str = "loss") -> Figure:
    """Figure 2b of several models and tasks: a panel a domain of each; see :func:`figure2b`."""
    places = [
        (name, result, domain)
        for name, result in shown.items()
        for domain in result.values["correlations"]
    ]
    if not places:
        return not_measured()
    with style():
        rows = -(-len(places) // _PANELS_A_ROW)
        figure = plt.figure(figsize=(9.5, 4.2 * rows))
        for number, (name, result, domain) in enumerate(places, start=1):
            axes = figure.add_subplot(rows, _PANELS_A_ROW, number)
            two_domains(axes, result.values, domain, measure, f"{name}\n")
        figure.tight_layout()
    return figure


def pruned_tasks(curves: Mapping[str, Result]) -> Figure:
    """What is kept of the score above chance as heads go by importance: a line a model and task.

    A colour a task and a kind of line a model, in the order in which they come, the first model's
    lines whole; the mean of the fine-tunings. Triangles point to the shares at which the paper's
    curves begin to fall.
    """
    colours = _colours(curves.values())
    lines = dict(
        zip(dict.fromkeys(result.model for result in curves.values()), itertools.cycle(_LINES))
    )
    with style():
        figure, axes = plt.subplots(figsize=(9.5, 6))
        for name, result in curves.items():
            axes.plot(
                100 * np.array(result.values["shares"]),
                100 * kept_above_chance(result.values),
                lines[result.model],
                color=colours[result.task],
                label=name,
            )
        shown: dict[str, float] = {}
        for task, colour in colours.items():
            share, published = published_share(task), published_task(task)
            if share is not None and published not in shown:
                # one above the other where shares are equal
                height = 104 + 5 * list(shown.values()).count(share)
                shown[published] = share
                axes.plot(
                    100 * share,
                    height,
                    "v",
                    color=colour,
                    markersize=8,
                    linestyle="none",
                    label=f"the paper, {spelled(published)}",
                )
        bound = 100 * (1 - SHOWN_TOLERANCE)
        axes.axhline(bound, color="black", linewidth=1, linestyle=":")
        axes.annotate(f"{SHOWN_TOLERANCE:.0%} lost", (99, bound + 0.6), fontsize=9, ha="right")
        axes.axhline(0, color="black", linewidth=1)
        pruning_axes(axes, np.linspace(0, 100, 11), "kept of the score above chance (%)")
        figure.tight_layout()
    return figure


def _colours(results: Iterable[Result]) -> dict[str, Any]:
    """Task -> its colour, in the order in which the tasks come."""
    tasks = dict.fromkeys(result.task for result in results)
    return dict(zip(tasks, itertools.cycle(sns.color_palette("colorblind"))))
