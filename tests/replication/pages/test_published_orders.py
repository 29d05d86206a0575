"""Others' orders of removal as tables and a figure."""

import matplotlib.pyplot as plt

from headprune_lib.replication.pages import plots, tables
from headprune_lib.replication.pages.plots.style import NARROW
from headprune_lib.replication.published_orders import published_orders


def test_the_board_has_every_curve_the_best_of_a_task_first():
    shown = tables.others_board()
    assert len(shown) == len(published_orders())
    for _, rows in shown.groupby("BERT-base on"):
        kept = [float(text.rstrip("%")) for text in rows["kept, mean over 0 to 50% removed"]]
        assert kept == sorted(kept, reverse=True)


def test_curves_are_drawn_a_panel_a_task():
    figure = plots.others_curves(NARROW)
    drawn = [len(axes.get_lines()) for axes in figure.axes]
    assert sum(drawn) == len(published_orders())
    assert {axes.get_title() for axes in figure.axes} == {"BERT-base, MNLI", "BERT-base, SST-2"}
    plt.close(figure)


def test_what_trains_is_on_a_board_of_its_own():
    shown = tables.trained_board()
    assert shown["heads left"].tolist()[:2] == ["75 of 144", "58 of 144"]
    assert "29.62 BLEU (all heads: 29.6)" in shown["result"].tolist()


def test_differences_over_seeds_have_a_minus_sign():
    column = "importance and entropy minus importance (points)"
    assert tables.entropy_over_seeds()[column].tolist()[-1] == "−0.60"
