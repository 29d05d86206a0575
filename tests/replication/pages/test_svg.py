"""Figures as SVG within a page: the same text each time, and nothing that reaches beyond itself."""

import re

import matplotlib.pyplot as plt
import pytest
from bs4 import BeautifulSoup

from headprune_lib.replication.pages.plots.palette import BLUE
from headprune_lib.replication.pages.plots.style import NARROW, WIDE, below, style
from headprune_lib.replication.pages.svg import as_svg


def drawn(layout=WIDE):
    with style():
        figure, (left, right) = layout.panels(2, 200)
        left.plot([0, 1], [1, 3], "o-", color=BLUE, label="one <line>")
        right.fill_between([0, 1], [0, 1], color=BLUE, alpha=0.3)
        left.set_xlim(0, 0.5)  # what lies beyond is clipped
    return figure


def test_the_same_figure_gives_the_same_text():
    assert as_svg(drawn(), "figure-1", "alt", "wide") == as_svg(drawn(), "figure-1", "alt", "wide")


def test_references_stay_within_the_picture():
    pictures = [as_svg(drawn(), name, "alt", "wide") for name in ("figure-1", "figure-2")]
    ids = [re.findall(r'\bid="([^"]+)"', picture) for picture in pictures]
    assert ids[0] and not set(ids[0]) & set(ids[1])
    for picture, own in zip(pictures, ids, strict=True):
        assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', picture)) <= set(own)
        assert "<style" not in picture  # would reach the whole page


@pytest.mark.parametrize("layout", [WIDE, NARROW])
def test_text_is_text_of_ten_pixels_or_more_at_the_width_drawn(layout):
    picture = BeautifulSoup(as_svg(drawn(layout), "f", "1 < 2", "wide"), "html.parser").svg
    assert int(picture["width"]) == layout.width and picture["aria-label"] == "1 < 2"
    sizes = [float(re.search(r"([\d.]+)px", text["style"])[1]) for text in picture.select("text")]
    assert sizes and min(sizes) >= 10


def test_places_are_rounded_and_what_is_written_is_not():
    with style():
        figure, (axes,) = WIDE.panels(1, 200)
        axes.set(xlim=(0, 0.004), xticks=[0.00125], title="r = 0.123")
    picture = BeautifulSoup(as_svg(figure, "f", "alt", "wide"), "html.parser").svg
    assert {"0.00125", "r = 0.123"} <= {text.get_text().strip() for text in picture.select("text")}
    assert not any(re.search(r"\d\.\d\d", path["d"]) for path in picture.select("path"))


def test_a_band_is_as_dense_as_it_was_drawn():
    with style():
        figure, (axes,) = WIDE.panels(1, 200)
        axes.axvspan(0, 0.5, color=BLUE, alpha=0.18)
    densities = re.findall(r"opacity: ([\d.]+)", as_svg(figure, "f", "alt", "wide"))
    assert "0.18" in densities


def test_colours_follow_the_page():
    picture = as_svg(drawn(), "f", "alt", "wide")
    assert f"var(--figure-blue, {BLUE})" in picture and "var(--figure-grid" in picture
    assert "#000000" not in picture


def test_a_long_name_in_the_legend_of_a_narrow_figure_is_broken_into_lines():
    name = "importance and entropy, weight chosen on training sentences"
    lines = {}
    for layout in (WIDE, NARROW):
        with style():
            figure, (axes,) = layout.panels(1, 200)
            axes.plot([0, 1], label=name)
            below(figure, layout)
        (text,) = figure.legends[0].get_texts()
        lines[layout] = text.get_text().split("\n")
        figure.canvas.draw()
        box = figure.legends[0].get_window_extent()
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1
    assert lines[WIDE] == [name] and len(lines[NARROW]) == 2
    plt.close("all")


def test_panels_stand_below_one_another_where_it_is_narrow():
    places = {
        layout: [axes.get_position() for axes in layout.panels(2, 200)[1]]
        for layout in (WIDE, NARROW)
    }
    assert places[WIDE][0].y0 == places[WIDE][1].y0
    assert places[NARROW][0].x0 == places[NARROW][1].x0
    plt.close("all")
