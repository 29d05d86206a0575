"""Figures within a page: the same text each time, nothing beyond itself, and told in numbers."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from bs4 import BeautifulSoup

from headprune_lib.replication.pages.describe import describe
from headprune_lib.replication.pages.plots.palette import BLUE
from headprune_lib.replication.pages.plots.style import (
    NARROW,
    WIDE,
    estimates,
    histogram,
    style,
)
from headprune_lib.replication.pages.svg import as_svg


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def drawn(layout=WIDE):
    with style():
        figure, (left, right) = layout.panels(2, 200)
        left.plot([0, 1], [1, 3], "o-", color=BLUE, label="one <line>")
        right.fill_between([0, 1], [0, 1], color=BLUE, alpha=0.3)
        left.set(xlim=(0, 0.004), xticks=[0.00125], title="r = 0.123")  # what is beyond is clipped
    return figure


def test_a_picture_is_the_same_each_time_and_stays_within_itself():
    first, again, second = (
        as_svg(drawn(), name, "alt", "wide") for name in ("figure-1", "figure-1", "figure-2")
    )
    assert first == again
    ids = [set(re.findall(r'\bid="([^"]+)"', picture)) for picture in (first, second)]
    assert ids[0] and not ids[0] & ids[1]
    for picture, inner in zip((first, second), ids, strict=True):
        assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', picture)) <= inner
        assert "<style" not in picture  # would reach the whole page
    assert f"var(--figure-blue, {BLUE})" in first and "#000000" not in first
    assert "0.3" in re.findall(r"opacity: ([\d.]+)", first), "a band is as dense as it was drawn"


@pytest.mark.parametrize("layout", [WIDE, NARROW])
def test_text_is_text_of_ten_pixels_or_more_and_places_are_rounded(layout):
    picture = BeautifulSoup(as_svg(drawn(layout), "f", "1 < 2", "wide"), "html.parser").svg
    assert int(picture["width"]) == layout.width and picture["aria-label"] == "1 < 2"
    texts = picture.select("text")
    assert min(float(re.search(r"([\d.]+)px", one["style"])[1]) for one in texts) >= 10
    assert {"0.00125", "r = 0.123"} <= {one.get_text().strip() for one in texts}
    assert not any(re.search(r"\d\.\d\d", path["d"]) for path in picture.select("path"))


def test_a_figure_is_told_by_its_points_and_ranges():
    figure, (lines, bars) = plt.subplots(1, 2)
    lines.set(xlabel="removed (%)", ylabel="BLEU")
    lines.plot([0, 1], [20, 10.25], label="short")
    lines.plot(range(11), np.linspace(0, 100, 11), label="long")
    lines.plot([0, 1], [5, 5], label="_not told")
    aside = {"told_at": [1, 2], "label": "aside"}  # drawn beside where it belongs
    estimates(lines, np.array([0.9, 1.9]), np.array([-0.5, 0]), [(-1, 0), (-1, 1)], **aside)
    histogram(bars, np.array([-5.0, 0.1, 0.15, 0.3]), np.linspace(-0.4, 0.4, 5), BLUE)
    found = describe(figure)
    assert "BLEU against removed (%). " in found and "short: 20 at 0, 10.2 at 1. " in found
    assert "long: 0 at 0, 50 at 5, 100 at 10." in found and "not told" not in found
    assert "aside: −0.5 at 1, 0 at 2" in found
    assert "3 from 0 to 0.4, 2 of them between 0 and 0.2" in found and "−5.0" in found
    figure, axes = plt.subplots()
    axes.scatter([0, 1, 2], [3, 4, 5])
    assert "3 dots, 0 to 2 across, 3 to 5 up" in describe(figure)
    assert describe(plt.figure()) == ""
