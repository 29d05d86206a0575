"""A figure as SVG that stands within a page: its text is text, its colours follow the theme."""

from __future__ import annotations

import html
import io
import re

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from headprune_lib.replication.pages.plots.palette import css_colour

_ID = re.compile(r'\bid="([^"]+)"')
_REFERENCE = re.compile(r'(url\(#|href="#)([^")]+)')
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_LONG_NUMBER = re.compile(r"(\d+\.\d\d)\d+")
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
    used = {found[1] for found in _REFERENCE.findall(body)}
    body = _ID.sub(
        lambda found: f'id="{name}-{variant}-{found[1]}"' if found[1] in used else "", body
    )
    body = _REFERENCE.sub(rf"\g<1>{name}-{variant}-\g<2>", body)
    body = _LONG_NUMBER.sub(r"\1", body)
    body = _COLOUR.sub(lambda found: css_colour(found[0]), body)
    body = re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r"\s+", " ", body)
    body = _EMPTY_GROUP.sub("", body.replace("<g >", "<g>"))
    return (
        f'<svg class="{variant}" role="img" aria-label="{html.escape(alt)}" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'fill="currentColor" stroke-linejoin="round">{body}</svg>'
    )
