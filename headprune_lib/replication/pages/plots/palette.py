"""The colours of all figures, on a light and on a dark page.

Any two differ by ΔE 25 or more (CIELAB) as a deuteranope sees them, by Machado's model of 2009, and
stand out from their background with a contrast of 3 or more. Blue, the paper's own order, stands out
most of the lines on a dark page.
"""

from __future__ import annotations

LIGHT = {
    "blue": "#124bba",
    "orange": "#a97e13",
    "green": "#06a666",
    "red": "#810c09",
    "purple": "#79398f",
    "brown": "#281f0d",
    "pink": "#dd5db9",
    "grey": "#5b5b5b",
}
DARK = {
    "blue": "#c0f0f8",
    "orange": "#e2bf72",
    "green": "#59efb1",
    "red": "#b66c56",
    "purple": "#b924ef",
    "brown": "#a08208",
    "pink": "#fb7feb",
    "grey": "#626262",
}
BACKGROUNDS = {"light": "#ffffff", "dark": "#121212"}
"""Of the theme's pages."""

BLUE, ORANGE, GREEN, RED, PURPLE, BROWN, PINK, GREY = LIGHT.values()
BLACK, GRID = "#000000", "#cccccc"


def css_colour(colour: str) -> str:
    """What stands in a picture within a page for a colour: it changes with the page's theme.

    >>> css_colour("#124bba"), css_colour("#000000"), css_colour("#abcdef")
    ('var(--figure-blue, #124bba)', 'currentColor', '#abcdef')
    """
    if colour == BLACK:
        return "currentColor"
    names = {value: name for name, value in LIGHT.items()} | {GRID: "grid"}
    return f"var(--figure-{names[colour]}, {colour})" if colour in names else colour
