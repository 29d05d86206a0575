"""What follows from outcomes that are made up: intervals, ties, trainings, and what is not said."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headprune_lib.replication import stats
from headprune_lib.replication.measurements.along_training import Statistics as SlopeStatistics
from headprune_lib.replication.measurements.along_training import gini_within, slopes
from headprune_lib.replication.measurements.contrasts import Statistics, values_of
from headprune_lib.replication.measurements.curves import MAIN, Curves, read_curves
from headprune_lib.replication.measurements.curves import Statistics as CurveStatistics
from headprune_lib.replication.measurements.effects import (
    Accuracy,
    Draws,
    one_by_one_scores,
    removable_record,
)
from headprune_lib.replication.measurements.single_heads import best_of_layers
from headprune_lib.replication.measurements.which_first import SHARES, shuffled_within
from headprune_lib.replication.metrics import SCORES

# --- single heads -----------------------------------------------------------------------------------


def test_ties_are_broken_by_the_loss():
    raw = {
        "heads": np.array([[0, 0], [0, 1], [1, 0], [1, 1]]),
        "correct": np.array([[1, 1], [1, 1], [0, 1], [1, 1]], bool),
        "correct_uncut": np.ones(2, bool),
        "loss_change": np.array([[5, 5], [1, 1], [0, 0], [9, 9]]),
    }
    assert best_of_layers(raw).tolist() == [1, 3]
    # accuracy before loss: what costs an answer goes last
    scores = one_by_one_scores(raw)["self"].ravel()
    assert scores.argsort().tolist() == [1, 0, 3, 2]
    raw = {
        "heads": np.array([[kind, 0, 0] for kind in range(3)]),
        "counts_uncut": np.ones((1, 5)),
        "counts_change": np.zeros((3, 1, 5), np.int16),
        "reference_lengths": np.array([2]),
        "draft_loss_change": np.array([[30], [10], [20]]),
    }
    scores = one_by_one_scores(raw)
    assert scores["enc-dec"] < scores["dec-dec"] < scores["enc-enc"]


def sweep(lost, n=2000):
    """Outcomes of cuts that make so many right answers wrong."""
    right = np.arange(n) < 0.8 * n
    return {"correct": right & (np.arange(n) >= np.array(lost)[:, None]), "correct_uncut": right}


def removable(raw, draws):
    change = raw["correct"].mean(1) - raw["correct_uncut"].mean()
    apart = (raw["correct"] != raw["correct_uncut"]).mean(1)
    half = 1.96 * np.sqrt(apart / raw["correct"].shape[1])
    drawn = Accuracy().resampled(raw, draws.resamples, draws.seed)
    return removable_record(change, change - half, change + half, drawn, 0.01, draws)


def test_needed_heads_the_interval_of_the_rest_and_the_power_of_more_examples():
    record = removable(sweep([0, 0, 2, 4, 100, 200, 20, 20]), Draws(resamples=500, worlds=50))
    assert record["needed"] == 2
    low, high = record["removable_interval"]
    assert 0.3 <= low <= 0.5 <= high <= 0.75  # two more are at the bound
    draws = Draws(resamples=300, worlds=60)
    many, few = (removable(sweep([round(n * 0.004)] * 12, n), draws) for n in (8000, 250))
    assert many["power"] > 0.9 and few["power"] < 0.5 and many["detectable"] < few["detectable"]


# --- curves -----------------------------------------------------------------------------------------


def test_what_is_kept_is_a_share_of_what_is_above_chance():
    curves = Curves(np.array([0.0, 0.5, 1.0]), 0.5, {}, {})
    assert curves.kept(np.array([0.9, 0.7, 0.5])) == pytest.approx([1.0, 0.5, 0.0])
    assert curves.area(np.array([0.9, 0.7, 0.5]), 0.5) == pytest.approx(0.8)
    assert curves.area(np.array([0.9, 0.7, 0.5])) == pytest.approx(0.7)
    of_loss = stats.kept_above_chance(-np.array([2.0, 3.0, 5.0]), -2.0, -4.0)
    np.testing.assert_allclose(of_loss, [1, 0.5, -0.5])
    # who is at chance, or below, has nothing to keep
    nothing = np.array([[0.5, 0.6, 0.5], [0.4, 0.6, 0.4]])
    assert np.isnan(curves.kept(nothing)).all()
    assert not stats.kept_above_chance(nothing, nothing[:, :1], 0.5, nothing=0.0).any()


def test_trainings_are_drawn_with_the_verses():
    def part(matched):
        counts = np.tile(np.array([20, 19, 18, 17, 20], np.int16), (60, 1))
        change = np.stack([counts, counts]) * 0
        change[1, :, :4] = -matched
        return {
            "names": np.array(["0"]),
            "shares": np.array([0.0, 0.5, 1.0]),
            "counts_uncut": counts - np.array([matched] * 4 + [0], np.int16),
            "counts_change": change.astype(np.int16),
            "reference_lengths": np.full(60, 20, np.int16),
        }

    outcomes = {"importance": part(1), "importance training 6": part(6)}
    curves = read_curves(outcomes, CurveStatistics(resamples=400))
    first, further = curves.runs["importance"][:, 0]
    drawn = curves.means["importance"].drawn[:, 0]
    # among draws of two trainings, a quarter has each of them alone
    for alone in (first, further):
        assert 0.15 < np.isclose(drawn, alone).mean() < 0.35
    assert np.ptp(curves.means[MAIN].drawn[:, 0]) == pytest.approx(0, abs=1e-9)  # no verse differs
    again, other = (
        read_curves(outcomes, CurveStatistics(resamples=400, seed=seed)).means for seed in (0, 1)
    )
    assert (again["importance"].drawn == curves.means["importance"].drawn).all()
    assert (other["importance"].drawn != curves.means["importance"].drawn).any()


# --- orders beside each other -----------------------------------------------------------------------


def made_up(seed, metric="accuracy", runs=3, n=40):
    generator, steps = np.random.default_rng(seed), len(SHARES)
    return {
        "said": np.array([""] * runs),
        "correct": generator.random((runs, steps, n)) < np.linspace(0.9, 0.5, steps)[:, None],
        "loss_area": generator.integers(0, 500, (runs, n)),
        "log_loss": generator.random((runs, steps)),
        "labels": np.arange(n) % 2,
        "shares": np.array(SHARES),
        "metric": np.array(metric),
    }


def rows(raw, kept_rows):
    one_a_run = ("said", "correct", "loss_area", "log_loss")
    return {name: one[kept_rows] if name in one_a_run else one for name, one in raw.items()}


def trainings_of(outcomes):
    return {name: [{"seed": int(name[-1]) if "training" in name else 1}] for name in outcomes}


def two_trainings(raw):
    """Two runs on the first training, one on the second."""
    return {"importance": rows(raw, slice(2)), "importance training 2": rows(raw, slice(2, None))}


@pytest.mark.parametrize("metric", ["accuracy", "matthews", "f1"])
def test_values_and_intervals_are_those_of_a_loop_over_resamples(metric):
    raw, n_drawn = made_up(1, metric), 40
    score = SCORES[metric]
    chance = score.chance(raw["labels"])
    outcomes = two_trainings(raw)
    found = values_of(outcomes, trainings_of(outcomes), Statistics(resamples=n_drawn, seed=3))
    order = found["orders"]["importance"]
    chosen = np.random.default_rng([3, 1]).integers(0, 2, (n_drawn, 2))
    drawn, areas, added = stats.bootstrap_indices(40, n_drawn, 3), [], []
    for members, trainings in [(np.arange(40), [0, 1]), *zip(drawn, chosen, strict=True)]:
        by_run = [
            score(raw["correct"][run][:11, members], raw["labels"][members]) for run in range(3)
        ]
        each = [(by_run[0] + by_run[1]) / 2, by_run[2]]
        curve = np.mean([each[i] for i in trainings], axis=0)
        kept = (curve - chance) / (curve[0] - chance) if curve[0] > chance else 0 * curve
        areas.append(np.trapezoid(kept, raw["shares"][:11]) / 0.5)
        losses = raw["loss_area"][:, members].mean(1)
        each = [(losses[0] + losses[1]) / 2, losses[2]]
        added.append(np.mean([each[i] for i in trainings]) / 1000)
    for record, expected in ((order["area"], areas), (order["added_loss"], added)):
        assert record["value"] == pytest.approx(expected[0], rel=1e-5)
        ends = np.quantile(expected[1:], [0.025, 0.975])
        assert record["interval"] == pytest.approx(ends, rel=1e-5)


def against(better, worse):
    outcomes = {"importance rescored": better, "importance": worse}
    found = values_of(outcomes, trainings_of(outcomes), Statistics(resamples=100))
    return found["contrasts"]["scored again against once"]


def test_an_order_against_itself_is_nothing_and_a_better_one_is_seen():
    worse, better = made_up(2, n=400), made_up(2, n=400)
    better["correct"] = better["correct"] | (np.random.default_rng(9).random((3, 16, 400)) < 0.3)
    better["correct"][:, 0] = worse["correct"][:, 0]
    better["loss_area"] = better["loss_area"] - 100
    assert against(worse, worse)["area"] == {"value": 0.0, "interval": [0.0, 0.0], "error": 0.0}
    again = against(better, worse)
    assert again["area"]["interval"][0] > 0
    assert again["loss"]["value"] == pytest.approx(0.1) and again["loss"]["error"] < 1e-6


def test_orders_and_contrasts_stand_on_the_trainings_that_both_have():
    outcomes, few = two_trainings(made_up(3)), Statistics(resamples=20)
    outcomes["importance rescored"] = rows(made_up(4), slice(1))
    found = values_of(outcomes, trainings_of(outcomes), few)
    assert found["contrasts"]["scored again against once"]["trainings"] == [1]
    only = {name: outcomes[name] for name in ("importance", "importance rescored")}
    assert values_of(only, trainings_of(only), few)["contrasts"] == found["contrasts"]
    assert [one["trainings"] for one in found["orders"].values()] == [[1], [1]]
    # without a training that all have, each on its own
    runs = {**trainings_of(outcomes), "importance rescored": [{"seed": 9}]}
    apart = values_of(outcomes, runs, few)
    assert apart["contrasts"] == {}
    assert [one["trainings"] for one in apart["orders"].values()] == [[1, 2], [9]]


@settings(max_examples=20, deadline=None)
@given(draw=st.integers(0, 1000))
def test_the_control_moves_entropies_within_their_layer_alone(draw):
    values = torch.arange(24.0).view(4, 6)
    moved = shuffled_within(values, draw)
    assert torch.equal(moved.sort(1).values, values)
    assert torch.equal(moved, shuffled_within(values, draw))


# --- along a training -------------------------------------------------------------------------------

_SLOPED = ("kept_at", "kept_random", "added_loss", "added_loss_random", "gini_within")


def trained(seeds, updates=(0, 5, 20, 80, 320)):
    """Trainings of numbers drawn at random; the second checkpoint has too little BLEU."""
    rng = np.random.default_rng(0)
    return [
        {
            "seed": seed,
            "checkpoints": [
                {"updates": n, "bleu": [4.9 if n < 20 else 5.0]}
                | dict(zip(_SLOPED, rng.random(5), strict=True))
                for n in updates
            ],
        }
        for seed in seeds
    ]


def test_slopes_are_least_squares_and_their_interval_is_students():
    names = ("kept", "importance", "random", "loss", "gini")
    trainings, expected = trained((2, 3, 4)), {name: [] for name in names}
    for training in trainings:
        _, *late = training["checkpoints"]
        able = late[1:]  # below 5 BLEU what is kept is noise
        for name, points, of in (
            ("kept", able, lambda p: p["kept_at"] - p["kept_random"]),
            ("importance", able, lambda p: p["kept_at"]),
            ("random", able, lambda p: p["kept_random"]),
            ("loss", late, lambda p: p["added_loss_random"] - p["added_loss"]),
            ("gini", late, lambda p: p["gini_within"]),
        ):
            x = np.log([p["updates"] for p in points])
            expected[name].append(np.polyfit(x, [of(p) for p in points], 1)[0])
    for name, found in slopes(trainings, SlopeStatistics()).items():
        runs = expected.pop(name)
        np.testing.assert_allclose(found["runs"], runs, rtol=1e-9)
        error = np.std(runs, ddof=1) / math.sqrt(3)
        half = 4.302652729696142 * error  # Student's t, 2 degrees of freedom, 97.5%
        assert found["difference"] == pytest.approx(np.mean(runs))
        ends = [np.mean(runs) - half, np.mean(runs) + half]
        np.testing.assert_allclose(found["interval"], ends, rtol=1e-6)
    assert not expected


def test_verses_are_in_the_interval_of_what_is_kept(drawn_seed):
    noise = np.random.default_rng(drawn_seed).normal(0, 0.1, (3, 5, 7))
    texts = [[{"importance": verses} for verses in each] for each in noise]
    found = slopes(trained((2, 3, 4)), SlopeStatistics(), texts)["importance"]
    x = np.log([20, 80, 320])
    weights = np.array([np.polyfit(x, row, 1)[0] for row in np.eye(3)])
    of_verses = np.square((weights @ noise[:, 2:]).mean(0)).sum()
    assert found["error"] ** 2 == pytest.approx(np.var(found["runs"], ddof=1) / 3 + of_verses)


def test_slopes_of_too_few_trainings_or_checkpoints():
    two = slopes(trained((2, 3)), SlopeStatistics())
    assert [slope["interval"] for slope in two.values()] == [None] * 5
    assert set(slopes(trained((2, 3, 4), (0, 5, 20)), SlopeStatistics())) == {"loss", "gini"}
    (alone,) = trained((1,))
    for point in alone["checkpoints"]:
        point["kept_random"] = point["added_loss_random"] = None
    assert slopes([alone], SlopeStatistics()) == {}


def test_the_coefficient_within_layers_does_not_see_what_one_layer_has_more_than_another():
    scores = np.random.default_rng(0).lognormal(size=(18, 8))
    scaled = scores * np.arange(1, 19)[:, None]
    assert gini_within(scaled) == pytest.approx(gini_within(scores))
