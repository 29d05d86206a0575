"""What no page shows of stored results: what was not measured, orders of rows, where lines are.

What they show of the stored ones is compared cell by cell in ``test_notebooks.py``.
"""

import dataclasses

import matplotlib.pyplot as plt
import numpy as np
import pytest

from headprune_lib.replication import store
from headprune_lib.replication.pages import plots
from headprune_lib.replication.pages.frames import prunable_at
from headprune_lib.replication.pages.plots.style import looks
from headprune_lib.replication.pages.tables.beyond import leaderboard_rows
from headprune_lib.replication.pages.tables.verdicts import again_table
from headprune_lib.replication.store import Key


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def test_what_was_not_measured_is_refused_with_what_was():
    values = {"prunable": {"importance": {"2%": {"share": 0.4, "interval": [0.3, 0.5]}}}}
    with pytest.raises(KeyError, match=r"order 'oracle' was not measured\. Use one of importance"):
        prunable_at(values, "oracle")
    with pytest.raises(KeyError, match=r"no share at a loss of 7%\. Use one of 2%"):
        prunable_at(values, tolerance=0.07)


def test_the_leaderboard_has_the_best_first():
    rows = leaderboard_rows({"reviews": store.load(Key("which_first", "reviews", "minilm"))})
    areas = [row["area"] for row in rows]
    assert rows[0]["above_chance"] and areas == sorted(areas, reverse=True) != sorted(areas)


def test_each_line_is_the_order_that_its_label_names():
    stored = store.load(Key("pruning_curve", "reviews", "minilm"))
    curves, prunable = (dict(stored.values[name]) for name in ("curves", "prunable"))
    curves["new"], prunable["new"] = curves["oracle"], prunable["oracle"]
    levels = {name: i / 100 for i, name in enumerate(curves)}
    made = {name: curves[name] | {"mean": [levels[name]] * 11} for name in levels}
    values = stored.values | {"curves": made, "prunable": prunable}
    axes = plots.figure3b(dataclasses.replace(stored, values=values)).axes[0]
    drawn = {line.get_label().partition(" (mean of")[0]: line for line in axes.get_lines()}
    rivals = [name for name in levels if not name.startswith("importance ")]
    for name, look in looks(rivals).items():
        level = drawn[look.label].get_ydata()
        np.testing.assert_allclose(level, 100 * levels[name], err_msg=name)


def test_a_name_lies_beside_its_line_and_on_none():
    figure, axes = plt.subplots(subplot_kw={"ylim": (-6, 26)})
    for level in (0, 1, 20):  # two of them close together
        axes.plot([0, 1], [level, level], label=f"level {level}")
    plots.below(figure, plots.WIDE)
    assert len(axes.texts) == 3 and not figure.legends
    for text in axes.texts:
        box = axes.transData.inverted().transform(text.get_window_extent())
        away = {level: max(box[0, 1] - level, level - box[1, 1]) for level in (0, 1, 20)}
        assert 0 < away[int(text.get_text().split()[1])] == min(away.values())


def test_a_mean_over_trainings_is_drawn_only_at_epochs_that_all_of_them_have():
    shares = [0.0, 0.2, 0.4, 0.6, 0.8]

    def training(*epochs):
        return {"checkpoints": [{"epoch": e, "bleu": [9], "kept": [e] * 5} for e in epochs]}

    values = {"shares": shares, "trainings": [training(1.0, 2.0, 3.0), training(1.0, 2.5, 3.0)]}
    axes = plots.figure5({"two trainings": values}).axes[1]
    assert {tuple(line.get_xdata()) for line in axes.get_lines()} == {(1.0, 3.0)}


def test_a_result_of_ones_own_has_no_link_to_the_committed_one():
    result = store.load(Key("one_head", "reviews", "minilm"))
    assert "one_head/reviews.minilm.json" in again_table([result])["values"].item()
    parts = {
        name: dataclasses.replace(part, raw_sha256="another") for name, part in result.parts.items()
    }
    own = dataclasses.replace(result, parts=parts)
    assert again_table([own])["values"].item() == "<code>headprune results</code>"
