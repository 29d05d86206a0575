"""Colours, sizes and marks of all figures, and the look of each order of removal."""

from __future__ import annotations

import io
import string
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text
from PIL import Image

from headprune_lib.cli.criteria import known_criteria
from headprune_lib.replication.criteria import shown
from headprune_lib.replication.formatting import estimate, signed
from headprune_lib.replication.order_names import parse_part
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import order_title

COLOURS = {
    "blue": "#124bba",
    "orange": "#a97e13",
    "green": "#06a666",
    "red": "#810c09",
    "purple": "#79398f",
    "brown": "#281f0d",
    "pink": "#dd5db9",
    "grey": "#5b5b5b",
}
"""Colours of all figures on a light page; ``site.css`` has those for a dark one.

Any two differ by ΔE 25 or more (CIELAB) as a deuteranope sees them, by Machado's model of 2009, and
have a contrast of 3 or more with their background. On a dark page blue, the paper's own order,
stands out most of all lines.
"""

BLUE, ORANGE, GREEN, RED, PURPLE, BROWN, PINK, GREY = COLOURS.values()
BLACK, GRID = "#000000", "#cccccc"


def css_colour(colour: str) -> str:
    """The CSS value of a colour in a picture on a page, which changes with the page's theme.

    >>> css_colour("#124bba"), css_colour("#000000"), css_colour("#abcdef")
    ('var(--figure-blue, #124bba)', 'currentColor', '#abcdef')
    """
    if colour == BLACK:
        return "currentColor"
    names = {value: name for name, value in COLOURS.items()} | {GRID: "grid"}
    return f"var(--figure-{names[colour]}, {colour})" if colour in names else colour


_LETTERS = 48  # characters of a legend line that fit the narrow layout
SERIES = (BLUE, ORANGE, GREEN, RED, PURPLE, PINK, BROWN, GREY)
"""Colours for lines without one of their own, in order."""


@dataclass(frozen=True)
class Layout:
    """A figure's layout: panels side by side on a page, stacked on a phone.

    ``width`` is in pixels of the page, ``columns`` the number of panels that fit side by side.
    """

    width: int
    columns: int

    def canvas(self, height: int) -> tuple[float, float]:
        """A figure's size in inches, from a height in pixels."""
        return self.width / 72, height / 72

    def panels(
        self, count: int, height: int, columns: int | None = None, **kwargs: Any
    ) -> tuple[Figure, list[Axes]]:
        """A figure and its panels of a height in pixels, as many side by side as fit.

        ``columns`` is the most of them; ``kwargs`` go to :func:`matplotlib.pyplot.subplots`.
        """
        across = min(count, self.columns, columns or count)
        rows = -(-count // across)
        figure, places = plt.subplots(
            rows, across, figsize=self.canvas(rows * height), squeeze=False, **kwargs
        )
        for spare in places.flat[count:]:
            spare.set_axis_off()
        return figure, list(places.flat[:count])


WIDE, NARROW = Layout(740, 3), Layout(340, 1)
_RC = {
    "figure.dpi": 72,  # a pixel of the page
    "font.size": 12,
    "axes.titlesize": 12,
    "axes.labelsize": 12,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "legend.fontsize": 11,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "grid.color": GRID,
    "axes.edgecolor": GRID,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), BLACK),
}


@contextmanager
def style() -> Iterator[None]:
    """Draw figures as pages show them while the context is active."""
    with sns.axes_style("whitegrid"), plt.rc_context(_RC):
        yield


def below(
    figure: Figure, layout: Layout, columns: int = 2, ylabel: str = "", everywhere: bool = False
) -> Figure:
    """Name each series next to it, list the rest in one legend below, and return the figure.

    The legend has ``columns`` in a wide layout. ``ylabel`` is written at the first panel of each
    row. With ``everywhere`` a series is listed also where some panels have room for its name.
    """
    if ylabel:
        for axes in figure.axes[:: min(layout.columns, len(figure.axes))]:
            axes.set_ylabel(ylabel)
    figure.tight_layout()
    if not (listed := _name_series(figure, everywhere)):
        return figure
    labels, handles = zip(*listed.items(), strict=True)
    columns = columns if layout.columns > 1 else 1
    if columns == 1:
        labels = [textwrap.fill(label, _LETTERS) for label in labels]
    rows = -(-sum(label.count("\n") + 1 for label in labels) // columns)
    height = 72 * figure.get_size_inches()[1]
    added = 17 * rows + 8
    figure.set_size_inches(layout.width / 72, (height + added) / 72)
    figure.legend(handles, labels, loc="lower center", ncols=columns)
    figure.tight_layout(rect=(0, added / (height + added), 1, 1))
    return figure


def panels(
    draw: Sequence[Callable[[Axes], object]],
    height: int,
    legend: bool = True,
    layout: Layout = WIDE,
    **kwargs: Any,
) -> Figure:
    """A figure of panels of a height in pixels, each drawn by a function of its axes.

    With ``legend`` there is one below all panels; without it each panel names its lines.
    """
    figure, places = layout.panels(len(draw), height, **kwargs)
    for axes, draw_panel in zip(places, draw, strict=True):
        draw_panel(axes)
    if legend:
        return below(figure, layout)
    figure.tight_layout()
    return figure


def name(axes: Axes, x: float, y: float, text: str, colour: str = BLACK, **kwargs: Any) -> None:
    """Write the name of a line, bar or band at a place in the panel, in its colour."""
    axes.text(x, y, text, color=colour, fontsize=11, **kwargs)


_GAP, _CLEAR = 4, 8
"""Pixels between a line and its name, and the fewest between the name and everything else."""
_SIDES = [(0, 1), (0, -1), (1, 1), (1, -1), (1, 0), (-1, 1), (-1, -1), (-1, 0)]


def _name_series(figure: Figure, everywhere: bool) -> dict[str, Artist]:
    """Write each label next to its line, dots or range, in their colour, in every panel with room.

    The panels need their places and limits first. Returned are the labels, with what they name, that
    no panel has room for; with ``everywhere`` those that some panel has no room for.
    """
    handles, named, missing = {}, set(), set()
    for axes in figure.axes:
        series: dict[str, list[Artist]] = {}
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
            drawn = handle.get_children() if isinstance(handle, ErrorbarContainer) else [handle]
            series.setdefault(label, []).extend(drawn)
        for label, alike in series.items():
            texts = (textwrap.fill(label, width) for width in (99, 24, 16))
            fits = any(_write_beside(axes, alike, text) for text in texts)
            (named if fits else missing).add(label)
    listed = missing if everywhere else missing - named
    return {label: handle for label, handle in handles.items() if label in listed}


def _write_beside(axes: Axes, series: list[Artist], text: str) -> bool:
    """Write a label next to a series, as far from all else as possible; return whether it fits."""
    drawn = [*axes.lines, *axes.collections, *axes.patches, *axes.texts]
    others = [artist for artist in drawn if artist not in series]
    line, rest = (
        points[((points >= axes.bbox.min) & (points <= axes.bbox.max)).all(1)]
        for points in (np.vstack([np.empty((0, 2)), *map(_points, of)]) for of in (series, others))
    )
    look = {"color": _colour(series[0]), "fontsize": 11, "ha": "center", "va": "center"}
    written = axes.text(0.5, 0.5, text, transform=axes.transAxes, gid=NAME, **look)
    half = np.array(written.get_window_extent().size) / 2
    middles = (line[:, None] + np.array(_SIDES) * (half + _GAP)).reshape(-1, 2)
    room = half + _GAP
    inside = (middles - room > axes.bbox.min) & (middles + room < axes.bbox.max)
    middles = middles[inside.all(1)]
    clear = np.minimum(_distance(middles, half, rest), 40)
    clear[_distance(middles, half, line) < _GAP - 1] = 0
    if clear.max(initial=0) < _CLEAR:
        written.remove()
        return False
    written.set_position(axes.transAxes.inverted().transform(middles[clear.argmax()]))
    return True


def _colour(drawn: Artist) -> str:
    """The colour of a line, dots or a range, without its transparency."""
    colours = drawn.get_color() if isinstance(drawn, Line2D) else drawn.get_edgecolor()
    return to_hex(colours if isinstance(colours, str) else np.atleast_2d(colours)[0])


def _distance(middles: np.ndarray, half: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The distance of each box, given by its middle and half its size, to the nearest point."""
    beyond = np.maximum(np.abs(points - middles[:, None]) - half, 0)
    return np.hypot(*beyond.T).min(0, initial=np.inf)


def _points(artist: Artist) -> np.ndarray:
    """Points on drawn lines, dots, text or the edges of a range, 4 pixels apart along lines."""
    paths, dots = [], np.empty((0, 2))
    if isinstance(artist, Line2D):
        path = artist.get_transform().transform(artist.get_xydata())
        paths, dots = ([], path) if artist.get_linestyle() == "None" else ([path], dots)
    elif isinstance(artist, LineCollection):
        paths = [artist.get_transform().transform(path.vertices) for path in artist.get_paths()]
    elif isinstance(artist, PathCollection):
        dots = artist.get_offset_transform().transform(np.asarray(artist.get_offsets()))
    elif isinstance(artist, Patch):
        paths = [artist.get_transform().transform(artist.get_path().vertices)]
    elif isinstance(artist, Text):
        (left, low), (right, high) = artist.get_window_extent().get_points()
        paths = [np.array([(left, y), (right, y)]) for y in np.linspace(low, high, 4)]
    for path in (path[np.isfinite(path).all(1)] for path in paths):
        along = np.hypot(*np.diff(path, axis=0, prepend=path[:1]).T).cumsum()
        steps = np.arange(0, along[-1] + 1, 4) if len(path) else along
        between = [np.interp(steps, along, part) for part in path.T if len(path)]
        dots = np.concatenate([dots, np.column_stack(between)]) if between else dots
    return dots[np.isfinite(dots).all(1)]


NAME = "name"
"""Group id of a line's name, which a figure's description already contains."""


def estimates(
    axes: Axes,
    x: np.ndarray,
    y: Sequence[float],
    intervals: Sequence[Sequence[float]],
    form: str = "o",
    **kwargs: Any,
) -> None:
    """Draw points with their 95% intervals; ``intervals`` has low and high for each."""
    aside = np.abs(np.array(intervals).T - np.array(y))
    axes.errorbar(x, y, aside, fmt=form, capsize=3, markersize=5, **kwargs)


def dots(
    axes: Axes,
    x: list[float],
    y: list[float],
    found: Mapping[str, Any],
    name: str = "",
    log: bool = False,
) -> None:
    """Draw one dot per head at two effects of its cut, the line through them, and r as title.

    With ``log``, if all effects are positive, on logarithmic axes and without the line.
    """
    log = log and min(*x, *y) > 0
    sns.regplot(
        x=x,
        y=y,
        ax=axes,
        color=BLUE,
        ci=None,
        fit_reg=not log,
        scatter_kws={"s": 18},
        line_kws={"linewidth": 1},
    )
    if log:
        axes.set(xscale="log", yscale="log")
        axes.xaxis.set_major_formatter("{x:g}")  # not as powers, whose exponents are too small
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.locator_params(nbins=6)
    r = "" if found["r"] is None else f"r = {estimate(found['r'], found['interval'])}"
    axes.set_title(f"{name}{r}".strip(), fontsize=11)


def histogram(
    axes: Axes, changes: np.ndarray, bins: np.ndarray, colour: str, **kwargs: Any
) -> None:
    """Draw a histogram over heads; values beyond the bins are listed in a line of text."""
    _, _, bars = axes.hist(
        changes, bins=bins, color=colour, edgecolor=GRID, linewidth=0.5, **kwargs
    )
    for bar in bars:
        bar.set_gid("bar")  # by which a description distinguishes bars from shaded areas
    beyond = np.sort(changes[(changes < bins[0]) | (changes > bins[-1])])
    if len(beyond):
        text = "off the scale:\n" + ", ".join(signed(value, form=".1f") for value in beyond)
        axes.text(0.02, 0.96, text, transform=axes.transAxes, va="top", fontsize=11)
    axes.axvline(0, color=BLACK, linewidth=1)


def within(axes: Axes, low: float, high: float, label: str, across: bool = False) -> None:
    """Shade a range of the vertical axis or, with ``across``, of the horizontal one."""
    draw = axes.axvspan if across else axes.axhspan
    draw(low, high, color=GREY, alpha=0.18, linewidth=0, zorder=0, label=label)


def pruning_curve(
    axes: Axes,
    shares: np.ndarray,
    curve: Mapping[str, Any],
    label: str,
    colour: Any,
    line: str,
    scale: float = 1,
    counted: bool = True,
    **kwargs: Any,
) -> None:
    """Draw the mean score over the share removed, with a band between the extremes of several runs.

    ``counted`` adds the number of runs to the label; unset it if panels sharing a legend differ.
    """
    runs = scale * np.array(curve["runs"])
    label += f" (mean of {len(runs)})" if counted and len(runs) > 1 else ""
    mean = scale * np.array(curve["mean"])
    axes.plot(shares, mean, line, color=colour, label=label, **kwargs)
    if len(runs) > 1:
        axes.fill_between(shares, runs.min(0), runs.max(0), color=colour, alpha=0.18, linewidth=0)


def pruning_axes(axes: Axes, score: str, removed: str = "% of all") -> None:
    """Set the names of the axes, and the scale of the share removed."""
    axes.set(
        xlabel=f"heads removed ({removed})", ylabel=score, xlim=(0, 100), xticks=range(0, 101, 20)
    )


def as_png(figure: Figure) -> bytes:
    """The figure as a PNG file of 256 colours; the same bytes each time."""
    drawn, file = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=110, facecolor="white")
    plt.close(figure)
    with Image.open(drawn) as image:
        # keeps the ends of a colour bar in the palette although they cover few pixels
        small = image.convert("RGB").quantize(
            256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
    small.save(file, "PNG", optimize=True)
    return file.getvalue()


class Look(NamedTuple):
    """The look of an order; ``line`` is matplotlib's format: a marker, if any, and a dash."""

    label: str
    colour: Any
    line: str


LOOKS: dict[str, Look] = {
    name: Look(order_title(name), colour, line)
    for name, colour, line in (
        ("importance", BLUE, "-"),
        ("importance main", BLUE, "--"),
        ("importance unnormalised", BLUE, "-."),
        ("importance rescored", PURPLE, "-"),
        ("oracle", ORANGE, "--"),
        ("oracle leak-free", RED, "-."),
        ("random", GREY, ":"),
        ("importance reversed", BROWN, "-."),
    )
}
"""Order -> look, in the order of the legend."""


def looks(orders: Iterable[str]) -> dict[str, Look]:
    """The looks of some orders, in the order of the legend; criteria and unknown ones last."""
    orders = list(orders)
    known = {name: look for name, look in LOOKS.items() if name in orders}
    return known | {name: _look(name) for name in orders if name not in known}


def _look(order: str) -> Look:
    """The look of an order's criterion; an order without one gets a default and its own name.

    An order with fitted gates has diamonds on the line of the order itself.
    """
    named = parse_part(order, "tuned")
    if named.tuned:
        look = LOOKS.get(named.order) or _look(named.order)
        return Look(order_title(order), look.colour, "D" + look.line.lstrip(string.ascii_letters))
    name, *words = order.split(" ")
    if name not in known_criteria():
        return Look(order_title(order), PINK, "-.")
    plain = shown(name)
    dash = plain.dash if not words else ":" if words == ["unnormalised"] else "-."
    return Look(order_title(order), COLOURS[plain.colour], plain.marker + dash)


_MODELS = {
    "minilm": ("o", BLUE),
    "mpnet": ("s", ORANGE),
    "post-norm": ("D", BLUE),
    "post-norm-6": ("v", ORANGE),
    "pre-norm": ("^", RED),
    "pre-norm, multi30k": ("P", PURPLE),
}


def model_look(result: Result) -> tuple[str, str]:
    """The marker and colour of a model in a figure of several models; a cross if it has none.

    A model trained on another text may have a look of its own.
    """
    of_model = _MODELS.get(result.model, ("X", PINK))
    return _MODELS.get(f"{result.model}, {result.task}", of_model)


def mark(result: Result) -> str:
    """The marker of a model where colours tell something else apart."""
    return model_look(result)[0]


def weight(order: str) -> dict[str, float]:
    """Line width and z-order of an order; the paper's own is the widest and on top of all."""
    return {"linewidth": 4, "zorder": 3} if order == "importance" else {"linewidth": 1.6}
