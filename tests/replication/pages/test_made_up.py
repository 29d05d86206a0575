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
from headprune_lib.replication.store import Key


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def test_what_was_not_measured_is_refused_with_what_was():
    values = {"prunable": {"importance": {"2%": {"share": 0.4, "interval": [0.3, 0.5]}}}}
    with pytest.raises(KeyError, match="order 'oracle' was not measured; there are importance"):
        prunable_at(values, "oracle")
    with pytest.raises(KeyError, match="no share at a loss of 7%; there are 2%"):
        prunable_at(values, tolerance=0.07)


def test_the_leaderboard_has_the_best_first():
    rows = leaderboard_rows({"reviews": store.load(Key("which_first", "reviews", "minilm"))})
    areas = [row["area"] for row in rows]
    assert rows[0]["above_chance"] and areas == sorted(areas, reverse=True) != sorted(areas)


def test_each_line_is_the_order_that_its_label_names():
    stored = store.load(Key("pruning_curve", "reviews", "minilm"))
    curves, prunable = stored.values["curves"], stored.values["prunable"]
    levels = {name: i / 100 for i, name in enumerate([*curves, "new"])}
    made = {name: {**curves.get(name, curves["oracle"])} for name in levels}
    for name, curve in made.items():
        curve["mean"] = [levels[name]] * len(curve["mean"])
    prunable = {**prunable, "new": prunable["oracle"]}
    values = {**stored.values, "curves": made, "prunable": prunable}
    result = dataclasses.replace(stored, values=values)
    drawn = {
        line.get_label().partition(" (mean of")[0]: line.get_ydata()
        for line in plots.figure3b(result).axes[0].get_lines()
    }
    rivals = [name for name in levels if not name.startswith("importance ")]
    for name, look in looks(rivals).items():
        np.testing.assert_allclose(drawn[look.label], 100 * levels[name], err_msg=name)
