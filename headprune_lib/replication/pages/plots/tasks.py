"""Several models and tasks in one figure, name -> result, the paper's values beside."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from headprune_lib.replication.pages.plots.encoder import (
    ACCURACY_CHANGE,
    bert_by_others,
)
from headprune_lib.replication.pages.plots.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    SERIES,
    WIDE,
    Layout,
    below,
    layer_changes,
    pruning_axes,
    style,
    within,
)
from headprune_lib.replication.pages.tables import paper, published_share, published_task
from headprune_lib.replication.pages.tables.pages import NOT_MEASURED
from headprune_lib.replication.paper import ARTIFACTS
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import spelled

__all__ = [
    "figure6",
    "layers_tasks",
    "one_head_tasks",
]

_LINES = ("-", "--", ":", "-.")
_APART = [colour for colour in SERIES if colour not in (GREEN, GREY)]
"""Colours of lines in a panel where the paper and others have the two that are left out."""


def one_head_tasks(
    shown: Mapping[str, Result], others: Mapping[str, np.ndarray], layout: Layout = WIDE
) -> Figure:
    """Change of accuracy with each head cut: a row a model and task, a dot a head.

    Args:
        shown: name -> result of Figure 1b.
        others: label -> changes in points that other laboratories measured.
    """
    rows = {
        f"{name}\n(n = {result.n_examples:,})": np.array(
            [100 * head["delta"] for head in result.values["heads"]]
        )
        for name, result in shown.items()
    }
    rows |= {label: changes.ravel() for label, changes in others.items()}
    spread = np.random.default_rng(0)
    with style():
        figure, axes = plt.subplots(figsize=layout.canvas(80 + 55 * len(rows)))
        for place, (label, changes) in enumerate(rows.items()):
            heights = place + spread.uniform(-0.25, 0.25, len(changes))
            named = label.replace("\n", " ")
            axes.scatter(
                changes, heights, s=12, color=GREY if label in others else BLUE, label=named
            )
        axes.axvspan(-1, 0, color=GREY, alpha=0.15, linewidth=0)
        axes.axvline(0, color=BLACK, linewidth=1)
        axes.set(xlabel=ACCURACY_CHANGE, yticks=range(len(rows)), yticklabels=list(rows))
        axes.invert_yaxis()
        figure.tight_layout()
    return figure


def layers_tasks(
    table3: Mapping[str, Result], table6: Mapping[str, Result], layout: Layout = WIDE
) -> Figure:
    """Tables 3 and 6, a panel each, beside the paper's twelve numbers.

    Models with another number of layers than the paper's are left out.
    """
    panels = (
        ("table3", table3, "best head chosen on the test set"),
        ("table6", table6, "best head chosen on training text"),
    )
    colours = _colours([*table3.values(), *table6.values()])
    with style():
        figure, places = layout.panels(2, 280, columns=1, sharey=True)
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
                    form="os^v"[list(colours).index(result.task) % 4],
                    color=colours[result.task],
                    label=name,
                )
            axes.plot(
                np.arange(1, len(published) + 1) + 0.2 * max(len(drawn), 2) - 0.1,
                published,
                "D",
                color=GREEN,
                markersize=4,
                label="the paper (BERT-base, MNLI)",
            )
            within(axes, -1, 0, "a loss of at most 1 point")
            axes.axhline(0, color=BLACK, linewidth=1)
            axes.set(
                xlabel="layer",
                ylabel=ACCURACY_CHANGE,
                title=title,
                xticks=range(1, len(published) + 1),
            )
        below(figure, layout)
    return figure


def figure6(panels: Mapping[str, Mapping[str, Result]], layout: Layout = WIDE) -> Figure:
    """Figure 6a–d, a panel each: the score as heads go by importance, in its own unit.

    Beside our lines stands BERT-base's, where others measured the paper's figure again, and the
    share at which the paper's own curve begins to fall.

    Args:
        panels: the paper's name of a panel, such as ``"figure6a"`` -> name -> pruning curve.
    """
    with style():
        figure, places = layout.panels(len(panels), 270, columns=2)
        for axes, (name, curves) in zip(places, panels.items(), strict=True):
            task, score = "", ""
            for (label, result), colour, line in zip(
                curves.items(), itertools.cycle(_APART), itertools.cycle(_LINES)
            ):
                scale = 1 if result.metric == "BLEU" else 100
                task, score = result.task, _SCORES.get(result.metric, result.metric)
                axes.plot(
                    100 * np.array(result.values["shares"]),
                    scale * np.array(result.values["curves"]["importance"]["mean"]),
                    line,
                    color=colour,
                    label=label if scale == 1 else label.partition(",")[0],
                )
            bert_by_others(axes, ARTIFACTS[name].task)
            if not curves:
                axes.text(50, 0.5, NOT_MEASURED, ha="center", va="center")
            if task and (share := published_share(task)) is not None:
                axes.axvline(
                    100 * share,
                    color=GREEN,
                    linewidth=2,
                    linestyle=(0, (6, 2)),
                    label="the paper: level up to here",
                )
                axes.set_title(f"({name[-1]}) {_task_title(task)}: {share:.0%} in the paper")
            pruning_axes(axes, score)
        below(figure, layout)
    return figure


_SCORES = {"accuracy": "accuracy (%)", "matthews": "Matthews correlation × 100", "f1": "F1 (%)"}


def _task_title(task: str) -> str:
    """The paper's task, with ours where it stands for it."""
    published = spelled(published_task(task))
    return published.upper() if published == "iwslt" else published


def _colours(results: Iterable[Result]) -> dict[str, str]:
    """Task -> its colour, in the order in which the tasks come."""
    tasks = dict.fromkeys(result.task for result in results)
    return dict(zip(tasks, itertools.cycle(SERIES)))
