"""Figures on a page: as SVG whose colours follow the theme, and described in words."""

from __future__ import annotations

import html
import io
import itertools
import re
from collections.abc import Iterator, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from headprune_lib.replication.formatting import with_minus
from headprune_lib.replication.pages.plots.style import NAME, css_colour

_ID = re.compile(r'\bid="([^"]+)"')
_REFERENCE = re.compile(r'(url\(#|href="#)([^")]+)')
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_TAG = re.compile(r"<[^>]*>")
_INK = re.compile(r"(<text [^>]*)(var\([^)]*\))")
_LONG_NUMBER = re.compile(r"(?<!opacity: )(\d+\.\d)\d+")
_DOT = re.compile(r'<use (?:xlink:)?(href="[^"]+") x="([^"]+)" y="([^"]+)" style="([^"]*)"/>')
_DOTS = re.compile(rf"(?:{_DOT.pattern}\s*){{2,}}")
_EMPTY_GROUP = re.compile(r"<g>\s*</g>\s*")


def as_svg(figure: Figure, name: str, alt: str, variant: str) -> str:
    """The figure as an ``<svg>`` element of the size it was drawn at; the same text each time.

    The figure is closed. Ids within the picture start with its ``name`` on the page; ``variant`` is
    the element's class, ``wide`` or ``narrow``.
    """
    file = io.StringIO()
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "headprune"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    width, height = (round(72 * inches) for inches in figure.get_size_inches())
    # the first element is a style for the whole document: it would affect the page's other pictures
    body = file.getvalue().partition("</defs>")[2].rpartition("</svg>")[0]
    used = dict.fromkeys(target for _, target in _REFERENCE.findall(body))
    short = {target: f"{name}-{variant}-{number}" for number, target in enumerate(used)}
    body = _ID.sub(lambda found: f'id="{short[found[1]]}"' if found[1] in short else "", body)
    body = _REFERENCE.sub(lambda found: found[1] + short[found[2]], body)
    # shortens coordinates, not text or the opacity of a band
    body = _TAG.sub(lambda found: _LONG_NUMBER.sub(r"\1", found[0]), body)
    body = _COLOUR.sub(lambda found: css_colour(found[0]), body)
    # the colour of a line is too faint for text
    body = _INK.sub(r"\1color-mix(in srgb, \2 70%, currentColor)", body)
    body = re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r"\s+", " ", body)
    body = _EMPTY_GROUP.sub("", body.replace("<g >", "<g>"))
    body = _DOTS.sub(_together, body)
    return (
        f'<svg class="{variant}" role="img" aria-label="{html.escape(alt)}" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'fill="currentColor" stroke-linejoin="round">{body}</svg>'
    )


def _together(dots: re.Match[str]) -> str:
    """Group neighbouring dots that look the same, so that the look is written once."""
    every = _DOT.findall(dots[0])
    return "".join(
        f'<g style="{look}">'
        + "".join(f'<use {shape} x="{x}" y="{y}"/>' for shape, x, y, _ in group)
        + "</g>"
        for look, group in itertools.groupby(every, key=lambda dot: dot[3])
    )


_FEW = 6  # points that are all listed


def describe(figure: Figure) -> str:
    """Describe a figure's panels: the axes, and values of every line, bar and cloud of dots.

    For a long line the first, the middle and the last point are given, for a cloud its range.
    """
    panels = [axes for axes in figure.axes if axes.axison and any(_series(axes))]
    return " ".join(
        ". ".join([_heading(axes, number, len(panels)), *_series(axes)]) + "."
        for number, axes in enumerate(panels, start=1)
    )


def _heading(axes: Axes, number: int, of: int) -> str:
    title = axes.get_title().replace("\n", " ")
    named = ": ".join(filter(None, [f"Panel {number}" if of > 1 else "", title]))
    across, up = (
        label.replace("\n", " ") or "rows" for label in (axes.get_xlabel(), axes.get_ylabel())
    )
    return f"{named}{' – ' if named else ''}{up} against {across}"


def _series(axes: Axes) -> Iterator[str]:
    bars = [patch for patch in axes.patches if patch.get_gid() == "bar" and patch.get_height()]
    if bars:
        tallest = max(bars, key=lambda bar: bar.get_height())
        left, right = tallest.get_x(), tallest.get_x() + tallest.get_width()
        ends = bars[0].get_x(), bars[-1].get_x() + bars[-1].get_width()
        yield (
            f"{sum(bar.get_height() for bar in bars):.0f} from {_short(ends[0])} to "
            f"{_short(ends[1])}, {tallest.get_height():.0f} of them between {_short(left)} and "
            f"{_short(right)}"
        )
    for container in axes.containers:
        if isinstance(container, ErrorbarContainer):
            yield _line(container[0], str(container.get_label()))
    for line in axes.get_lines():
        if not str(line.get_label()).startswith("_"):
            yield _line(line, str(line.get_label()))
    for cloud in axes.collections:
        if isinstance(cloud, PathCollection) and len(cloud.get_offsets()):
            x, y = np.asarray(cloud.get_offsets()).T
            label = str(cloud.get_label())
            yield (
                f"{'' if label.startswith('_') else label + ': '}{len(x)} dots, "
                f"{_short(min(x))} to {_short(max(x))} across, "
                f"{_short(min(y))} to {_short(max(y))} up"
            )
    for text in axes.texts:
        if text.get_gid() != NAME and any(letter.isdigit() for letter in text.get_text()):
            yield text.get_text().replace("\n", " ")


def _line(line: Line2D, label: str) -> str:
    x, y = (np.asarray(part, float) for part in line.get_data())
    if len(x) > 1 and len(set(x)) == 1:
        return f"{label} at {_short(x[0])}"
    chosen: Sequence[int] = range(len(x)) if len(x) <= _FEW else (0, len(x) // 2, len(x) - 1)
    points = ", ".join(f"{_short(y[i])} at {_short(x[i])}" for i in chosen)
    return f"{label}: {points}"


def _short(value: float) -> str:
    """Format a number to three digits, or to units from 100 on, which is enough to follow.

    >>> _short(12.345), _short(0.0), _short(-0.1), _short(23456.0)
    ('12.3', '0', '−0.1', '23456')
    """
    value = round(value, 6) + 0.0  # no rounding residue, no minus before zero
    text = f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return with_minus(text)
