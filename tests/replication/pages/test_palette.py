"""Every two colours of a figure can be told apart, in both modes, by those who see no green too."""

import itertools
import re

import numpy as np
import pytest

from headprune_lib.replication.pages.plots.palette import BACKGROUNDS, DARK, LIGHT, css_colour
from headprune_lib.replication.paths import project_root

# Linear RGB as a deuteranope sees it: Machado, Oliveira & Fernandes 2009, severity 1.
ROWS = "0.367322 0.860646 -0.227968 0.280085 0.672501 0.047413 -0.011820 0.042940 0.968881"
DEUTERANOPIA = np.array(ROWS.split(), float).reshape(3, 3)
ROWS = "0.4124564 0.3575761 0.1804375 0.2126729 0.7151522 0.0721750 0.0193339 0.1191920 0.9503041"
XYZ = np.array(ROWS.split(), float).reshape(3, 3)
WHITE = np.array([0.95047, 1, 1.08883])
PALETTES = {"light": LIGHT, "dark": DARK}


def linear(colour):
    """sRGB without its gamma, (3,)."""
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIE L*a*b* of linear RGB."""
    xyz = XYZ @ np.clip(rgb, 0, 1) / WHITE
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one, two):
    """Of luminances, as WCAG counts it."""
    dark, light = sorted(XYZ[1] @ linear(colour) for colour in (one, two))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("mode", PALETTES)
def test_colours_differ_for_a_deuteranope_and_stand_out_from_the_background(mode):
    colours = PALETTES[mode].values()
    for one, two in itertools.combinations(colours, 2):
        seen = (lab(DEUTERANOPIA @ linear(colour)) for colour in (one, two))
        assert np.linalg.norm(np.subtract(*seen)) >= 25, (one, two)
    assert min(contrast(colour, BACKGROUNDS[mode]) for colour in colours) >= 3


def test_the_sites_style_has_both_palettes():
    css = (project_root() / "book" / "static" / "site.css").read_text("utf-8")
    for start, palette in ((":root", LIGHT), (r'html\[data-theme="dark"\]', DARK)):
        block = re.search(start + r" \{([^}]*)\}", css)[1]
        found = dict(re.findall(r"--figure-(\w+): (#\w+)", block))
        assert found.items() >= palette.items()
    assert css_colour("#abcdef") == "#abcdef"
