"""What a figure shows is told in numbers."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from headprune_lib.replication.pages.describe import describe
from headprune_lib.replication.pages.plots.style import estimates, histogram


@pytest.fixture
def axes():
    figure, axes = plt.subplots()
    axes.set(xlabel="removed (%)", ylabel="BLEU")
    yield axes
    plt.close(figure)


def test_a_short_line_is_told_whole_and_a_long_one_at_three_points(axes):
    axes.plot([0, 1], [20, 10.25], label="by importance")
    axes.plot(range(11), np.linspace(0, 100, 11), label="long")
    axes.plot([0, 1], [5, 5], label="_not told")
    assert describe(axes.get_figure()) == (
        "BLEU against removed (%). by importance: 20 at 0, 10.2 at 1. "
        "long: 0 at 0, 50 at 5, 100 at 10."
    )


def test_intervals_are_told_by_their_points(axes):
    estimates(axes, np.array([1, 2]), np.array([-0.5, 0]), [(-1, 0), (-1, 1)], label="here")
    assert "here: −0.5 at 1, 0 at 2" in describe(axes.get_figure())


def test_points_that_are_drawn_aside_are_told_where_they_are(axes):
    estimates(
        axes, np.array([0.9, 1.9]), np.array([3, 4]), [(3, 3), (4, 4)], told_at=[1, 2], label="a"
    )
    assert "a: 3 at 1, 4 at 2" in describe(axes.get_figure())


def test_a_histogram_is_told_by_its_range_and_its_tallest_bar(axes):
    histogram(axes, np.array([-5.0, 0.1, 0.15, 0.3]), np.linspace(-0.4, 0.4, 5), "#124bba")
    found = describe(axes.get_figure())
    assert "3 from 0 to 0.4, 2 of them between 0 and 0.2" in found
    assert "off the scale: −5.0" in found


def test_a_cloud_is_told_by_its_range(axes):
    axes.scatter([0, 1, 2], [3, 4, 5])
    assert "3 dots, 0 to 2 across, 3 to 5 up" in describe(axes.get_figure())


def test_an_empty_panel_is_not_told():
    figure, _ = plt.subplots(1, 2)
    assert describe(figure) == ""
    plt.close(figure)
