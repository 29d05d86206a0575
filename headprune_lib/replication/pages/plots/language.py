"""A language model: perplexity along orders of removal, and what each head's absence adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from headprune_lib.replication.claims.questions import DELTA_NATS
from headprune_lib.replication.measurements.language_curve import PER_GROUP, WHOLE_GROUPS
from headprune_lib.replication.pages.plots.orders import Look, looks
from headprune_lib.replication.pages.plots.style import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    WIDE,
    Layout,
    below,
    style,
)
from headprune_lib.replication.titles import order_title

__all__ = ["added_by_head", "perplexity_along"]

_GROUPS = {
    PER_GROUP: Look(order_title(PER_GROUP), PURPLE, "-."),
    WHOLE_GROUPS: Look(order_title(WHOLE_GROUPS), ORANGE, "--"),
}
_TICKS = (10, 30, 100, 300, 1_000, 3_000, 10_000)


def perplexity_along(shown: Mapping[str, dict], layout: Layout = WIDE) -> Figure:
    """Perplexity against the share of heads removed, a panel a text, a line an order.

    Args:
        shown: name of the text -> values of ``language_curve``.
    """
    with style():
        figure, panels = layout.panels(len(shown), 340)
        for axes, (title, values) in zip(panels, shown.items(), strict=True):
            shares = 100 * np.array(values["shares"])
            single = [name for name in values["curves"] if name not in _GROUPS]
            for name, look in (looks(single) | _GROUPS).items():
                if name not in values["curves"]:
                    continue
                curve = values["curves"][name]
                runs = np.exp(np.array(curve["runs"]))
                label = look.label + (f" (mean of {len(runs)})" if len(runs) > 1 else "")
                axes.plot(shares, curve["perplexity"], look.line, color=look.colour, label=label)
                if len(runs) > 1:
                    axes.fill_between(
                        shares, runs.min(0), runs.max(0), color=look.colour, alpha=0.18, linewidth=0
                    )
            # the reversed order leaves the picture: the others could not be told apart beside it
            most = max(np.exp(curve["runs"]).max() for name, curve in values["curves"].items()
                       if name != "importance reversed")  # fmt: skip
            least = min(min(curve["perplexity"]) for curve in values["curves"].values())
            axes.set(title=title, xlabel="heads removed (%)", yscale="log")
            axes.set_yticks(_TICKS, [f"{tick:,}" for tick in _TICKS])
            axes.minorticks_off()
            axes.set_ylim(0.85 * least, 1.3 * most)
        for axes in panels[:: min(layout.columns, len(panels))]:
            axes.set_ylabel("perplexity (log scale)")
        below(figure, layout)
    return figure


def added_by_head(values: Mapping[str, Any], layout: Layout = WIDE) -> Figure:
    """The loss a token that each head's absence adds, by layer: a dot a head."""
    added = np.array([head["added"] for head in values["heads"]])
    layers = [head["layer"] + 1 for head in values["heads"]]
    with style():
        figure, axes = plt.subplots(figsize=layout.canvas(320))
        axes.scatter(layers, added, s=16, color=BLUE, label="one head's absence")
        axes.axhline(
            DELTA_NATS, color=GREEN, linewidth=2, label=f"{DELTA_NATS} nats, 1% of perplexity"
        )
        axes.set_yscale("symlog", linthresh=DELTA_NATS)  # from below 0 to whole nats
        ticks = [-DELTA_NATS, 0, DELTA_NATS, 0.1, 1, 10]
        axes.set_yticks(ticks, [f"{tick:g}".replace("-", "−") for tick in ticks])
        axes.set(
            xlabel="layer",
            ylabel="added loss a token (nats)",
            ylim=(min(-2 * DELTA_NATS, 1.5 * added.min()), 2 * added.max()),
        )
        below(figure, layout)
    return figure
