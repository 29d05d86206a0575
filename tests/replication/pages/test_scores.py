"""Tables, figures and numbers of how far scores can be trusted."""

import dataclasses

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.stats

from headprune_lib.replication import measurements
from headprune_lib.replication.measurements.stability import PLAIN
from headprune_lib.replication.pages import numbers, plots, tables
from headprune_lib.replication.pages.describe import describe
from headprune_lib.replication.pages.numbers.scores import every_number
from headprune_lib.replication.pages.plots.style import NARROW, WIDE
from headprune_lib.replication.titles import ROLES, order_title


@pytest.fixture(scope="module")
def sentences(smoke):
    return measurements.get("scoring_examples", smoke)


@pytest.fixture(scope="module")
def stability(smoke):
    return measurements.get("stability", smoke)


@pytest.fixture(scope="module")
def agreement(smoke):
    return measurements.get("agreement", smoke)


@pytest.fixture(scope="module")
def roles(smoke):
    return measurements.get("head_roles", smoke)


def test_a_row_says_what_a_number_of_sentences_gives(sentences):
    shown = tables.sentences_table(sentences.values)
    criteria = sentences.values["criteria"]
    assert shown["sentences"].tolist() == ["16", "64"] * len(criteria)
    row, found = shown.iloc[0], criteria["importance"][0]
    assert row["rank correlation with all"].startswith(f"{found['with_all']['value']:.2f} [")
    assert row["of two draws"] == f"{found['between']:.2f}" and row["draws"] == 3
    lost = f"{100 * found['lost']['value']:+.2f}".replace("-", "−")
    assert row["less than by all (points)"].startswith(lost)
    assert shown.iloc[1]["of two draws"] == ""
    assert shown.iloc[1]["less than by all (points)"] == "+0.00 [+0.00, +0.00]"


def test_a_criterion_that_reads_no_text_is_said_to(stability, agreement):
    shown = tables.stability_table(stability, agreement).set_index("criterion")
    assert shown.loc[order_title("magnitude"), "synthetic-far"] == "reads no text"
    found = stability.values["criteria"]["entropy"]["domains"]["synthetic-far"]
    assert shown.loc[order_title("entropy"), "synthetic-far"].startswith(f"{found['r']:.2f} [")


def test_fine_tunings_of_importance_are_those_of_the_agreement(stability, agreement):
    scores = agreement.raw["scores"].reshape(2, -1)
    expected = scipy.stats.spearmanr(*scores).statistic
    found = tables.between_trainings(PLAIN, stability, agreement)
    assert found == pytest.approx(expected)
    mean = agreement.values["mean_spearman"]
    assert tables.between_trainings("importance", stability, agreement) == mean
    assert tables.between_trainings("fisher", stability, agreement) is None
    assert tables.between_trainings("importance", stability, None) is None
    values = {"criteria": {"fisher": {"mean_trainings": 0.25}}}
    own = dataclasses.replace(stability, values=values)
    assert tables.between_trainings("fisher", own, agreement) == 0.25


def test_what_is_known_of_heads_with_others_held_fixed(stability):
    shown = tables.known_of_heads_table(stability.values).set_index("criterion")
    criteria = stability.values["criteria"]
    last = "within layers, importance held fixed"
    assert shown.loc[order_title("importance"), last] == ""
    for name, column, what in (
        ("fisher", "alone", "effect"),
        ("entropy", "within layers", "given_layer"),
        ("entropy", last, "given_both"),
    ):
        value = f"{criteria[name][what]['r']:+.2f}".replace("-", "−")
        assert shown.loc[order_title(name), column].startswith(value), name


def test_roles_are_rows(roles):
    shown = tables.roles_table(roles.values)
    assert shown["of a head"].tolist() == [*ROLES.values()]
    rank = roles.values["orders"][PLAIN]["ranks"]["layer"]["r"]
    assert shown.iloc[3][order_title(PLAIN)].startswith(f"{rank:+.2f}".replace("-", "−"))
    assert shown.iloc[2][order_title("importance")] == "not measured", "no special tokens here"


@pytest.mark.parametrize("layout", [WIDE, NARROW])
def test_lines_are_where_the_values_are(sentences, roles, layout):
    figure = plots.scores_by_sentences(sentences.values, layout)
    left, right = figure.axes
    for axes, key, scale in ((left, "with_all", 1), (right, "lost", 100)):
        assert len(axes.containers) == len(sentences.values["criteria"])
        for container in axes.containers:
            (name,) = (
                one
                for one in sentences.values["criteria"]
                if order_title(one) == container.get_label()
            )
            rows = sentences.values["criteria"][name]
            expected = [scale * row[key]["value"] for row in rows]
            assert container[0].get_ydata() == pytest.approx(expected)
    assert "16" in describe(figure)
    plt.close(figure)
    figure = plots.what_goes_first(roles.values, layout)
    assert len(figure.axes) == 4
    for axes, role in zip(figure.axes, ROLES, strict=True):
        first = axes.containers[0]
        steps = roles.values["orders"]["importance"]["steps"][role]
        scale = 100 if role in ("place", "special") else 1
        assert first[0].get_ydata() == pytest.approx([scale * step["mean"] for step in steps])
        (_, ends, *_) = first
        low, high = (line.get_ydata() for line in ends)
        np.testing.assert_allclose(
            np.transpose([low, high]), [scale * np.array(step["interval"]) for step in steps]
        )
    plt.close(figure)


def test_numbers_say_what_is_not_measured(sentences, stability, agreement, roles, smoke):
    found = every_number(sentences, stability, agreement, roles)
    told = numbers.scores(sentences, stability, agreement, roles)
    assert told == {name: found.get(name, "not measured") for name in told}
    assert found["importance_1000_ranks"] == "not measured"
    first = sentences.values["criteria"]["importance"][0]
    assert found["importance_16_ranks"].startswith(f"{first['with_all']['value']:.2f} [")
    assert found["all_sentences"] == "64"
    assert found["fisher_trainings"] == "not measured" != found["importance_trainings"]
    assert found["importance_both"] == "not measured" != found["fisher_both"]
    changes = measurements.get("one_head", smoke).raw["loss_change"].mean(1)
    assert found["n_heads"] == 8 and found["n_lower"] == sum(changes < 0)
    one = stability.values["criteria"]["entropy"]["domains"]["synthetic-far"]["r"]
    assert found["entropy_other_text"] == f"{one:.2f} to {one:.2f}"
    steps = roles.values["orders"]["importance"]["steps"]["place"]
    assert found["first_place_importance"] == f"{steps[0]['mean']:.0%}"
    assert found["last_place_importance"] == f"{steps[-1]['mean']:.0%}"
    assert found["mean_layer"] == "1.50"
