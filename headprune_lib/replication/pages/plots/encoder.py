"""The encoder half: one function a figure, from a result's values, the paper's value beside."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headprune_lib.replication.claims.kept import HEADS
from headprune_lib.replication.claims.rules import share_judged, task_judged
from headprune_lib.replication.pages.plots.orders import looks
from headprune_lib.replication.pages.plots.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    WIDE,
    Layout,
    below,
    dots,
    layer_changes,
    not_measured,
    pruning_axes,
    pruning_curve,
    share_in_the_paper,
    style,
    within,
)
from headprune_lib.replication.pages.tables import paper, shown_orders
from headprune_lib.replication.published import bert_curve
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import setting, spelled

__all__ = [
    "figure2b",
    "figure3b",
    "table3",
]

ACCURACY_CHANGE = "change of accuracy (points)"


def table3(chosen_on_test: dict, chosen_on_train: dict, layout: Layout = WIDE) -> Figure:
    """Change of accuracy with each layer reduced to its best head: two choices, and the paper's."""
    published = paper("table3")["delta_accuracy_percent"]
    with style():
        figure, (left, right) = layout.panels(2, 300, sharey=True)
        for values, label, colour, shift, form in (
            (chosen_on_test, "best head chosen on the test set", BLUE, -0.12, "o"),
            (chosen_on_train, "best head chosen on training text", ORANGE, 0.12, "s"),
        ):
            layer_changes(left, values["layers"], 100, shift, form=form, color=colour, label=label)
        left.set(
            xlabel="layer",
            ylabel=ACCURACY_CHANGE,
            title="here",
            xticks=[row["layer"] + 1 for row in chosen_on_test["layers"]],
        )
        right.plot(
            range(1, len(published) + 1), published, "D", color=GREEN, label="the paper, Table 3"
        )
        right.set(xlabel="layer", xticks=range(1, len(published) + 1), title="the paper (MNLI)")
        for axes in (left, right):
            within(axes, -1, 0, "a loss of at most 1 point")
            axes.axhline(0, color=BLACK, linewidth=1)
        below(figure, layout)
    return figure


def figure2b(values: dict, measure: str = "loss", layout: Layout = WIDE) -> Figure:
    """Effect of each cut in domain against out of domain, a panel a domain."""
    domains = list(values["correlations"])
    if not domains:  # the task has no other text
        return not_measured(layout)
    with style():
        figure, panels = layout.panels(len(domains), 290)
        for axes, domain in zip(panels, domains, strict=True):
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
        axes,
        x,
        y,
        values["correlations"][domain][measure]["pearson"],
        f"{name}{spelled(domain)}\n",
    )
    axes.set(xlabel=f"{spelled(home)}: change of\n{unit}", ylabel=f"change of {unit}")
    axes.xaxis.set_major_locator(MaxNLocator(4))


def figure3b(*curves: Result | None, layout: Layout = WIDE) -> Figure:
    """Accuracy against the share of heads removed, a panel a result and a line an order.

    Beside them chance, and the paper's share that the result is judged at by C3's rule; on a task of
    the paper also BERT-base by importance, as others measured it.

    Args:
        curves: pruning curves; None is left out.
    """
    shown = [curve for curve in curves if curve is not None]
    if not shown:
        return not_measured(layout)
    height = 400 if layout.columns > 1 else 320
    with style():
        figure, panels = layout.panels(len(shown), height, columns=2)
        for axes, curve in zip(panels, shown, strict=True):
            _orders(axes, curve, alone=len(shown) == 1)
        below(figure, layout)
    return figure


def _orders(axes: Axes, curve: Result, alone: bool) -> None:
    values, task = curve.values, curve.task
    shares = 100 * np.array(values["shares"])
    for name, look in looks(shown_orders(values)).items():
        pruning_curve(axes, shares, values["curves"][name], *look, scale=100, counted=alone)
    bert_by_others(axes, task)
    axes.axhline(100 * values["chance"], color=BLACK, linewidth=1, linestyle=":", label="chance")
    judged = task_judged(task, "encoder")
    share_in_the_paper(axes, share_judged(task, "encoder"), spelled(judged))
    pruning_axes(axes, "accuracy (%)")
    if not alone:
        axes.set_title(setting(curve))


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
