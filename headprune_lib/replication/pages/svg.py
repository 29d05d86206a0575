"""A figure as SVG that stands within a page: its text is text, its colours follow the theme."""

from __future__ import annotations

import html
import io
import itertools
import re

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from headprune_lib.replication.pages.plots.palette import css_colour

_ID = re.compile(r'\bid="([^"]+)"')
_REFERENCE = re.compile(r'(url\(#|href="#)([^")]+)')
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_TAG = re.compile(r"<[^>]*>")
_LONG_NUMBER = re.compile(r"(?<!opacity: )(\d+\.\d)\d+")
_DOT = re.compile(r'<use (?:xlink:)?(href="[^"]+") x="([^"]+)" y="([^"]+)" style="([^"]*)"/>')
_DOTS = re.compile(rf"(?:{_DOT.pattern}\s*){{2,}}")
_EMPTY_GROUP = re.compile(r"<g>\s*</g>\s*")


def as_svg(figure: Figure, name: str, alt: str, variant: str) -> str:
    """The figure as an ``<svg>`` element, as wide as it was drawn; the same text each time.

    Args:
        figure: is closed.
        name: of the figure in its page; what the picture refers to within itself starts with it.
        alt: what it shows, in words and numbers.
        variant: its class, ``wide`` or ``narrow``.
    """
    file = io.StringIO()
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "headprune"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    width, height = (round(72 * inches) for inches in figure.get_size_inches())
    # the first element is a style for the whole document: it would reach the page's other pictures
    body = file.getvalue().partition("</defs>")[2].rpartition("</svg>")[0]
    used = dict.fromkeys(target for _, target in _REFERENCE.findall(body))
    short = {target: f"{name}-{variant}-{number}" for number, target in enumerate(used)}
    body = _ID.sub(lambda found: f'id="{short[found[1]]}"' if found[1] in short else "", body)
    body = _REFERENCE.sub(lambda found: found[1] + short[found[2]], body)
    # of places, not of what is written or of how dense a band is
    body = _TAG.sub(lambda found: _LONG_NUMBER.sub(r"\1", found[0]), body)
    body = _COLOUR.sub(lambda found: css_colour(found[0]), body)
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
    """Neighbouring dots of one look, the look said once."""
    every = _DOT.findall(dots[0])
    return "".join(
        f'<g style="{look}">'
        + "".join(f'<use {shape} x="{x}" y="{y}"/>' for shape, x, y, _ in own)
        + "</g>"
        for look, own in itertools.groupby(every, key=lambda dot: dot[3])
    )
