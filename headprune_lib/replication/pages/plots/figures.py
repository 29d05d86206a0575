"""The figures: those of the paper, with its values alongside, and those beyond it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Affine2D

from headprune_lib.replication import stats
from headprune_lib.replication.claims.questions import DELTA_NATS, above_chance
from headprune_lib.replication.claims.rules import share_judged
from headprune_lib.replication.formatting import NOT_MEASURED, with_minus
from headprune_lib.replication.measurements import half_of
from headprune_lib.replication.measurements.along_training import translating
from headprune_lib.replication.measurements.language_curve import PER_GROUP, WHOLE_GROUPS
from headprune_lib.replication.measurements.recovery import NO_ORDER
from headprune_lib.replication.pages.frames import frame, step_at
from headprune_lib.replication.pages.plots.style import (
    BLACK,
    BLUE,
    BROWN,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SERIES,
    WIDE,
    Layout,
    Look,
    below,
    dots,
    estimates,
    looks,
    mark,
    model_look,
    pruning_axes,
    pruning_curve,
    weight,
    within,
)
from headprune_lib.replication.pages.tables.beyond import Grid
from headprune_lib.replication.pages.tables.markup import shown_orders
from headprune_lib.replication.paper import ARTIFACTS
from headprune_lib.replication.published import (
    bert_curve,
    bert_steps,
    independent_curves,
    paper,
    published_share,
)
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import order_title, spelled


def figure3b(curve: Result, layout: Layout = WIDE) -> Figure:
    """The score against the share of heads removed; see :func:`orders`."""
    figure, axes = plt.subplots(figsize=layout.canvas(400 if layout.columns > 1 else 320))
    orders(axes, curve)
    return below(figure, layout)


_VARIANTS = {f"importance {way}" for way in ("main", "rescored", "unnormalised", "reversed")}
"""Orders of a curve that its figure leaves out because other pages compare them."""


def orders(axes: Axes, curve: Result, counted: bool = True) -> None:
    """Draw a pruning curve's orders except variants of importance, the paper's order the widest.

    Also drawn are chance, the paper's share at which C3's rule judges the result, and, on a task of
    the paper, BERT-base's curve by importance as others measured it.
    """
    values, scale = curve.values, 1 if curve.metric == "BLEU" else 100
    shares = 100 * np.array(values["shares"])
    shown = [name for name in shown_orders(values) if name not in _VARIANTS]
    for name, look in looks(shown).items():
        score = values["curves"][name]
        pruning_curve(axes, shares, score, *look, scale=scale, counted=counted, **weight(name))
    bert_by_others(axes, curve.task)
    if values["chance"]:
        axes.axhline(100 * values["chance"], color=BLACK, linewidth=1, label="chance")
    share_in_the_paper(axes, share_judged(curve.task, half_of(curve)))
    pruning_axes(axes, curve.metric if scale == 1 else f"{curve.metric} (%)")


def share_in_the_paper(axes: Axes, share: float) -> None:
    """Draw a line where the paper's curve begins to fall, read by eye."""
    dash, label = (0, (6, 2)), "the paper: level up to here"
    axes.axvline(100 * share, color=GREEN, linewidth=2, linestyle=dash, label=label)


def bert_by_others(axes: Axes, task: str) -> None:
    """Draw BERT-base's score by importance, if others measured it on this task of the paper."""
    if (curve := bert_curve(task)) is None:
        return
    shares, scores = bert_steps(curve)
    label = "BERT-base, measured by others"
    axes.plot(100 * shares, 100 * scores, "--", color=GREY, label=label)


_APART = [colour for colour in SERIES if colour not in (GREEN, GREY)]
"""Line colours for a panel in which green is the paper's and grey is others'."""


def layers_tasks(table6: Mapping[str, Result], layout: Layout = WIDE) -> Figure:
    """Table 6 with its intervals, next to the paper's twelve numbers.

    Models whose number of layers differs from the paper's are left out.
    """
    published = paper("table6")["delta_accuracy_percent"]
    layers = np.arange(1, len(published) + 1)
    drawn = {name: table for name, table in table6.items() if len(frame(table)) == len(layers)}
    figure, (axes,) = layout.panels(1, 280)
    within(axes, -1, 0, "a loss of at most 1 point")
    for position, (name, table) in enumerate(drawn.items()):
        rows = 100 * frame(table)[["delta", "interval_low", "interval_high"]]
        estimates(
            axes,
            layers,
            rows["delta"],
            rows[["interval_low", "interval_high"]],
            mark(table),
            color=_APART[position % len(_APART)],
            label=name,
            # side by side, though each is at its layer
            transform=Affine2D().translate(0.17 * (position - len(drawn) / 2), 0) + axes.transData,
        )
    x = layers + 0.17 * len(drawn) / 2
    axes.plot(x, published, "D", color=GREEN, markersize=5, label="the paper")
    axes.axhline(0, color=BLACK, linewidth=1)
    axes.set(xlabel="layer", ylabel="change of accuracy (points)", xticks=layers)
    return below(figure, layout)


def figure6(panels: Mapping[str, Mapping[str, Result]], layout: Layout = WIDE) -> Figure:
    """Figure 6a–d, one panel each: the score, in its own unit, as heads are removed by importance.

    Also drawn are BERT-base's line, where others repeated the paper's figure, and the share at which
    the paper's own curve begins to fall. ``panels`` has the pruning curves by the panel's name in
    the paper, such as ``"figure6a"``.
    """
    figure, places = layout.panels(len(panels), 230, columns=2)
    for axes, (name, curves) in zip(places, panels.items(), strict=True):
        score = ""
        for label, result in curves.items():
            scale, score = _SCORES.get(result.metric, (100, result.metric))
            x = 100 * np.array(result.values["shares"])
            y = scale * np.array(result.values["curves"]["importance"]["mean"])
            label = _model_title(label) if scale == 1 else label.partition(",")[0]
            form, colour = model_look(result)
            axes.plot(x, y, f"{form}-", color=colour, markersize=5, label=label)
        bert_by_others(axes, ARTIFACTS[name].task)
        if not curves:
            axes.text(50, 0.5, NOT_MEASURED, ha="center", va="center")
        elif (share := published_share(result.task)) is not None:
            share_in_the_paper(axes, share)
            task = spelled(result.task).partition(" (")[0]
            axes.set_title(f"({name[-1]}) {task}: {share:.0%} in the paper")
        pruning_axes(axes, score)
    return below(figure, layout)


_SCORES = {
    "BLEU": (1, "BLEU"),
    "accuracy": (100, "accuracy (%)"),
    "matthews": (100, "Matthews correlation × 100"),
    "f1": (100, "F1 (%)"),
}
"""Metric -> the factor for its stored scores, and its name."""


def _model_title(name: str) -> str:
    """Shorten a translator's name for a panel that shows German to English only.

    >>> _model_title("post-norm translator of six epochs, German-English (Bible)")
    'post-norm of six epochs'
    """
    return name.replace(" translator", "").replace(", German-English", "").removesuffix(" (Bible)")


_REMOVED = {20: ("o-", BLUE), 40: ("s-", ORANGE), 60: ("^-", PURPLE), 80: ("D-", RED)}
"""Share of heads removed (%) -> the look of its line in Figure 5."""
_LEVEL = 10  # the epoch from which on the paper's model keeps the same share


def figure5(shown: Mapping[str, dict], layout: Layout = WIDE) -> Figure:
    """Share of BLEU kept by epoch, a line per share removed: others' IWSLT model first, then ours.

    Of several trainings the mean is drawn, at the epochs that all of them have.
    """
    again = independent_curves()["figure5"]
    theirs = sorted((float(epoch), bleu) for epoch, bleu in again["bleu_by_epoch"].items())
    panels = {
        "an IWSLT model, by others": {
            removed: {epoch: bleu[step] / bleu[0] for epoch, bleu in theirs}
            for step, removed in enumerate(again["percent_removed"])
        }
    }
    for name, values in shown.items():
        panels[name] = {
            removed: _kept_by_epoch(values, step_at(values["shares"], removed / 100))
            for removed in _REMOVED
        }
    low, high = (100 * end for end in paper("figure5")["kept_at_40_percent_pruned_from_epoch_10"])
    figure, places = layout.panels(len(panels), 300, sharey=True)
    for axes, (name, lines) in zip(places, panels.items(), strict=True):
        for removed, (form, colour) in _REMOVED.items():
            kept, label = lines[removed], f"{removed}%"
            y = [100 * share for share in kept.values()]
            axes.plot(list(kept), y, form, color=colour, markersize=5, label=label)
        axes.set(xlabel="epoch", title=name.replace(", ", ",\n"), ylim=(0, 115), xlim=(0, None))
        if (last := axes.get_xlim()[1]) > _LEVEL:
            look = {"color": GREEN, "alpha": 0.3, "linewidth": 0, "label": "the paper"}
            axes.axhspan(low, high, _LEVEL / last, **look)
    return below(figure, layout, columns=3, ylabel="BLEU kept (%)", everywhere=True)


def _kept_by_epoch(values: Mapping[str, Any], step: int) -> dict[float, float]:
    """Epoch -> mean share kept over trainings, at the epochs where all of them translate.

    A mean over some of the trainings would jump where one drops out.
    """
    by_epoch: dict[float, list[float]] = {}
    for training in values["trainings"]:
        for point in translating(training["checkpoints"]):
            by_epoch.setdefault(round(point["epoch"], 2), []).append(point["kept"][step])
    return {
        epoch: float(np.mean(kept))
        for epoch, kept in sorted(by_epoch.items())
        if len(kept) == len(values["trainings"])
    }


def same_heads(panels: list[tuple[str, Grid, Grid]], layout: Layout = WIDE) -> Figure:
    """Two measurements of each cut's effect, one panel per pair, in accuracy points or BLEU."""
    figure, places = layout.panels(len(panels), 300)
    for axes, (title, first, second) in zip(places, panels, strict=True):
        unit, scale = ("points", 100) if first.kind == "self" else ("BLEU", 1)
        x, y = scale * first.values.ravel(), scale * second.values.ravel()
        correlation = stats.correlation(x, y)
        r = {"r": correlation.value, "interval": [correlation.low, correlation.high]}
        dots(axes, x, y, r, f"{title}\n")
        axes.set(xlabel=f"{first.lab}:\nchange ({unit})", ylabel=f"{second.lab}: change ({unit})")
    figure.tight_layout()
    return figure


def kept_by_model(
    shown: Mapping[str, dict], orders: Sequence[str], layout: Layout = WIDE
) -> Figure:
    """The mean share kept over 0 to 50% removed, with intervals: a row per model, a dot per order.

    A task whose uncut model is not above chance is left out, unless that leaves none, and so are
    orders missing from a result. ``shown`` has the values of ``which_first``.
    """
    shown = {name: area for name, area in shown.items() if above_chance(area)} or shown
    wide = layout.columns > 1
    figure, axes = plt.subplots(figsize=layout.canvas((40 if wide else 62) * len(shown) + 50))
    for position, (order, look) in enumerate(looks(orders).items()):
        areas = {
            line: values["orders"][order]["area"]
            for line, values in enumerate(shown.values())
            if order in values["orders"]
        }
        height = np.array(list(areas)) + 0.16 * (position - (len(orders) - 1) / 2)
        ends = 100 * np.array([area["interval"] for area in areas.values()]).reshape(-1, 2)
        middles = [100 * area["value"] for area in areas.values()]
        marker = {"s": 40, "marker": "D"} if order == "importance" else {"s": 22}
        inside = look.colour if look.line.endswith("-") else "none"  # hollow if the line is dotted
        marker |= {"facecolors": inside, "edgecolors": look.colour, "zorder": 3}
        axes.scatter(middles, height, label=look.label, **marker)
        axes.hlines(height, *ends.T, color=look.colour, linewidth=1.5, label=look.label)
    names = [name if wide else textwrap.fill(name, 16) for name in shown]
    axes.set(yticks=range(len(shown)), yticklabels=names, xlabel=_KEPT[wide], xlim=(20, 110))
    axes.invert_yaxis()
    return below(figure, layout)


_KEPT = {True: "kept above chance, mean over 0 to 50% removed (%)", False: "kept above chance (%)"}
"""Axis label that fits a wide layout (True) or a narrow one (False)."""


def areas_of_orders(
    values: Mapping[str, Any], passes: Mapping[str, float], layout: Layout = WIDE
) -> Figure:
    """The mean share kept over 0 to 50% removed, with its interval; the best order is at the top.

    ``passes`` has the cost of a criterion's scores in forward passes, shown after its name.
    """
    orders = sorted(values["orders"], key=lambda name: values["orders"][name]["area"]["value"])
    wide = layout.columns > 1
    figure, axes = plt.subplots(figsize=layout.canvas((19 if wide else 52) * len(orders) + 70))
    names = []
    for line, name in enumerate(orders):
        area, title = values["orders"][name]["area"], order_title(name)
        low, high = (100 * end for end in area["interval"])
        colour = BLUE if name == "importance" else GREY
        axes.plot([low, high], [line, line], "-", color=colour, linewidth=2)
        axes.scatter([100 * area["value"]], [line], color=colour, label=title)
        cost = f" ({passes[name]:,.{0 if passes[name] > 10 else 1}f})" if name in passes else ""
        names.append(title + cost if wide else textwrap.fill(title + cost, 18))
    axes.set(yticks=range(len(orders)), yticklabels=names, xlabel=_KEPT[wide])
    axes.set_ylim(-0.7, len(orders) - 0.3)
    figure.tight_layout()
    return figure


_ASIDE = 0.8  # percentage points removed, so that intervals do not overlap


def before_and_after(
    values: Mapping[str, Any], metric: str = "accuracy", layout: Layout = WIDE
) -> Figure:
    """The score against the share removed: one panel before training and one after each way of it.

    Each order is a line with 95% intervals. At 0 it starts from the uncut model, which was trained
    the same way. Single runs of a random order are dots.
    """
    rows = values["recovered"]
    ways = list(dict.fromkeys(row["way"] for row in rows))
    # the ways do not differ before training, so measurements for either are shown
    panels = [("before", "before training", ways)]
    panels += [("after", f"after training, {way}", [way]) for way in ways]
    orders = looks(dict.fromkeys(row["order"] for row in rows if row["order"] != NO_ORDER))
    figure, places = layout.panels(len(panels), 330, sharey=True)
    for axes, (when, title, wanted_way) in zip(places, panels, strict=True):
        for position, (name, look) in enumerate(orders.items()):
            states = _along(rows, name, when, wanted_way)
            if len(states) < 2:  # the uncut model alone
                continue
            shares = 100 * np.array(list(states))
            scores = 100 * np.array([state["score"] for state in states.values()])
            ends = 100 * np.array([state["interval"] for state in states.values()])
            n_runs = max(len(state["runs"]) for state in states.values())
            aside = _ASIDE * (position - (len(orders) - 1) / 2)
            label = look.label + (f" (mean of {n_runs})" if n_runs > 1 else "")
            axes.plot(shares, scores, look.line, color=look.colour, label=label, **weight(name))
            axes.vlines(shares + aside, *ends.T, color=look.colour, linewidth=1.5)
            for share, state in states.items():
                if (n_runs := len(state["runs"])) > 1:
                    runs = 100 * np.array(state["runs"])
                    axes.plot([100 * share] * n_runs, runs, ".", color=look.colour, alpha=0.6)
        axes.set(title=title, xlabel="heads removed (%)", xticks=range(0, 61, 20))
    return below(figure, layout, ylabel="BLEU" if metric == "BLEU" else f"{metric} (%)")


def _along(
    rows: list[Mapping[str, Any]], order: str, when: str, ways: list[str]
) -> dict[float, Mapping[str, Any]]:
    """Share -> an order's state in the first of the ways that has it, from the uncut model on."""
    states = {
        row["share"]: row[when]
        for way in reversed(ways)
        for row in rows
        if row["way"] == way and row["order"] in (order, NO_ORDER)
    }
    return dict(sorted(states.items()))


_GROUPS = {
    PER_GROUP: Look(order_title(PER_GROUP), PURPLE, "-."),
    WHOLE_GROUPS: Look(order_title(WHOLE_GROUPS), BROWN, "--"),
}

_TICKS = (10, 30, 100, 300, 1_000, 3_000, 10_000)


def perplexity_along(shown: Mapping[str, dict], layout: Layout = WIDE) -> Figure:
    """Perplexity against the share of heads removed, one panel per text, one line per order."""
    figure, panels = layout.panels(len(shown), 340)
    for axes, (title, values) in zip(panels, shown.items(), strict=True):
        shares = 100 * np.array(values["shares"])
        single = [name for name in values["curves"] if name not in _GROUPS]
        for name, look in (looks(single) | _GROUPS).items():
            if name not in values["curves"]:
                continue
            curve = values["curves"][name]
            perplexities = {"mean": curve["perplexity"], "runs": np.exp(curve["runs"])}
            pruning_curve(axes, shares, perplexities, *look, **weight(name))
        # the reversed order may leave the axes: on its scale the others could not be told apart
        most = max(np.exp(curve["runs"]).max() for name, curve in values["curves"].items()
                   if name != "importance reversed")  # fmt: skip
        least = min(min(curve["perplexity"]) for curve in values["curves"].values())
        axes.set(title=title, xlabel="heads removed (%)", yscale="log")
        axes.set_yticks(_TICKS, [f"{tick:,}" for tick in _TICKS])
        axes.minorticks_off()
        axes.set_ylim(0.85 * least, 1.3 * most)
    return below(figure, layout, ylabel="perplexity (log scale)")


def added_by_head(values: Mapping[str, Any], layout: Layout = WIDE) -> Figure:
    """The loss per token that each head's absence adds, by layer, one dot per head."""
    added = np.array([head["added"] for head in values["heads"]])
    layers = [head["layer"] + 1 for head in values["heads"]]
    figure, axes = plt.subplots(figsize=layout.canvas(320))
    axes.scatter(layers, added, s=16, color=BLUE)
    axes.axhline(DELTA_NATS, color=ORANGE, linewidth=2, label=f"{DELTA_NATS} nats")
    axes.set_yscale("symlog", linthresh=DELTA_NATS)  # values run from below 0 to whole nats
    ticks = [-DELTA_NATS, 0, DELTA_NATS, 0.1, 1, 10]
    axes.set_yticks(ticks, [with_minus(f"{tick:g}") for tick in ticks])
    axes.set(
        xlabel="layer",
        xlim=(0, max(layers) + 4),  # with room for the line's name
        ylabel="added loss (nats a token)",
        ylim=(min(-2 * DELTA_NATS, 1.5 * added.min()), 2 * added.max()),
    )
    return below(figure, layout)
