"""The translation half: one function a figure, from a result's values, the paper's value beside."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headprune_lib.replication.pages.plots.orders import looks
from headprune_lib.replication.pages.plots.style import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    WIDE,
    Layout,
    below,
    dots,
    layer_changes,
    pruning_axes,
    pruning_curve,
    share_in_the_paper,
    style,
)
from headprune_lib.replication.pages.tables import paper, published_share, published_task
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import spelled

__all__ = [
    "figure2a",
    "figure3a",
    "table2",
]

KINDS = ("enc-enc", "enc-dec", "dec-dec")
BLEU_CHANGE = "change of BLEU"


def table2(
    chosen_on_test: Mapping[str, Result],
    chosen_elsewhere: Mapping[str, Result],
    layout: Layout = WIDE,
) -> Figure:
    """Change of BLEU with each layer reduced to its best head, a panel a model and kind; two choices.

    Args:
        chosen_on_test: name -> result of Table 2.
        chosen_elsewhere: the same of Table 5.
    """
    models = list(chosen_on_test | chosen_elsewhere)
    with style():
        figure, panels = layout.panels(3 * len(models), 270, columns=3, sharey=True)
        places = [(model, kind) for model in models for kind in KINDS]
        for (model, kind), axes in zip(places, panels, strict=True):
            for found, label, colour, shift, form in (
                (chosen_on_test, "chosen on the test set (as Table 2)", BLUE, -0.15, "o"),
                (chosen_elsewhere, "chosen on other text (as Table 5)", ORANGE, 0.0, "s"),
            ):
                if model not in found:
                    continue
                rows = [row for row in found[model].values["layers"] if row["kind"] == kind]
                layer_changes(axes, rows, 1, shift, form=form, color=colour, label=label)
            published = paper("table5")[kind]["delta_bleu"]
            axes.plot(
                np.arange(1, len(published) + 1) + 0.15,
                published,
                "D",
                color=GREEN,
                label="the paper, Table 5",
            )
            axes.axhline(0, color=BLACK, linewidth=1)
            title = kind if len(models) == 1 else f"{model}:\n{kind}"
            axes.set(title=title, xlabel="layer", xticks=range(1, len(published) + 1))
        for axes in panels[:: layout.columns]:
            axes.set(ylabel=BLEU_CHANGE)
        below(figure, layout)
    return figure


def figure2a(shown: Mapping[str, Result], layout: Layout = WIDE) -> Figure:
    """Effect of each encoder cut at home against on other text, a row a model: BLEU, and loss."""
    with style():
        figure, panels = layout.panels(2 * len(shown), 320, columns=2)
        measures = (("bleu", "change of BLEU"), ("loss", "change of loss (nats a text)"))
        places = [(result, *measure) for result in shown.values() for measure in measures]
        for (result, measure, unit), axes in zip(places, panels, strict=True):
            values = result.values
            x, y = (
                [head[f"{measure} {place}"] for head in values["heads"]]
                for place in ("home", "far")
            )
            dots(axes, x, y, values["correlations"][measure]["pearson"])
            home, far = spelled(result.task), spelled(result.dataset.partition("/")[0])
            axes.set(xlabel=f"{home}: {unit}", ylabel=f"{far}: the same")
            axes.xaxis.set_major_locator(MaxNLocator(5))
        figure.tight_layout()
    return figure


def figure3a(shown: Mapping[str, Result], layout: Layout = WIDE) -> Figure:
    """BLEU against the share of heads removed, a panel a model, a line an order.

    A green line is the share at which the paper's curve of the task begins to fall.
    """
    with style():
        figure, panels = layout.panels(len(shown), _height(layout, 380), columns=2)
        for axes, (name, result) in zip(panels, shown.items(), strict=True):
            shares, curves = 100 * np.array(result.values["shares"]), result.values["curves"]
            for order, look in looks(curves).items():
                pruning_curve(axes, shares, curves[order], *look)
            if (published := published_share(result.task)) is not None:
                share_in_the_paper(axes, published, spelled(published_task(result.task)).upper())
            _bleu_axes(axes, name if len(shown) > 1 else "")
        below(figure, layout)
    return figure


def _height(layout: Layout, wide: int) -> int:
    """Of a panel of lines in pixels: as given where it is wide, less on a phone."""
    return wide if layout.columns > 1 else 320


def _bleu_axes(axes: Axes, title: str, removed: str = "% of all") -> None:
    pruning_axes(axes, "BLEU", removed)
    axes.set_title(title)
    axes.set_ylim(0, None)
