"""Statistics against scipy, statsmodels, published values, plain loops and coverage."""

import random

import numpy as np
import pytest
import scipy.stats
from statsmodels.stats.contingency_tables import mcnemar

from headprune_lib.replication import metrics, stats

RNG = np.random.default_rng(20190525)
HALF = 4.302653 * np.log(2) / 3**0.5  # Student's t of two degrees of freedom
GOLDEN = {
    # Fagerland, Lydersen and Laake 2014, airway data: Tango
    "interval": (lambda: stats.paired_proportion_interval(7, 1, 21), (-0.517, -0.026)),
    # z^2 / (n + z^2)
    "interval of none": (
        lambda: stats.paired_proportion_interval(0, 0, 100), (-3.8415 / 103.8415, 3.8415 / 103.8415)
    ),
    "equivalence is strict": (lambda: stats.equivalence([-0.02, -0.01, -0.009], 0.01), (0, 0, 1)),
    "Holm": (lambda: stats.holm([[0.01, 0.04], [0.03, 0.005]]), [[0.03, 0.06], [0.06, 0.02]]),
    "Holm, at most 1": (lambda: stats.holm([0.6, 0.9]), (1, 1)),
    "ratio": (
        lambda: stats.ratio_interval([2.0, 4.0, 8.0], [1.0, 1.0, 1.0]),
        (4, 4 * np.exp(-HALF), 4 * np.exp(HALF)),
    ),
    "area": (lambda: stats.area_under_curve([0, 0.5, 1], [[1, 1, 1], [1, 0.5, 0]]), (1, 0.5)),
    "area of a part": (lambda: stats.area_under_curve([0.2, 0.4], [0.8, 0.6]), 0.7),
    "all of": (lambda: [stats.all_of([0.9, 0.95]), stats.all_of([0.3, 0.4])], (0.85, 0)),
    "reliability": (lambda: stats.split_half_reliability(np.outer([1, 2, 4], np.ones(4)), splits=3), 1),
    "ceiling": (
        lambda: [stats.correlation_ceiling(0.9, 0.4), stats.correlation_ceiling(-0.1, 0.4)], (0.6, 0)
    ),
    "prunable share": (
        lambda: [
            stats.prunable_share(np.linspace(0, 1, 6), scores, chance=0.5, tolerance=0.02)
            for scores in (
                [0.90, 0.90, 0.892, 0.891, 0.5, 0.5],  # at most 0.02 * 0.4 = 0.008 lost
                [0.90, 0.88, 0.90, 0.90, 0.90, 0.90],  # a dip ends it, whatever follows
                [0.90, 0.91, 0.92, 0.93, 0.94, 0.95],
                [0.50, 0.50, 0.50, 0.50, 0.50, 0.50],  # at chance
                [0.40, 0.60, 0.60, 0.60, 0.60, 0.60],  # below chance
            )
        ],
        (0.4, 0, 1, 0, 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name):
    compute, expected = GOLDEN[name]
    published = 6e-4 if "interval" in name else 1e-12  # to three digits
    np.testing.assert_allclose(np.array(compute(), float), expected, rtol=1e-5, atol=published)


def test_gini_is_the_mean_absolute_difference():
    rows = np.random.default_rng(0).exponential(size=(3, 17))
    pairs = np.abs(rows[:, :, None] - rows[:, None]).mean((1, 2)) / (2 * rows.mean(1))
    np.testing.assert_allclose(stats.gini(rows), pairs)
    np.testing.assert_allclose(
        stats.gini([[2, 2, 2], [0, 0, 5], [0, 0, 0]]), [0, 2 / 3, 0], atol=1e-15
    )


def test_mcnemar_equals_statsmodels_for_every_pair_of_small_counts():
    lost, gained = np.meshgrid(np.arange(25), np.arange(25))
    ours = stats.mcnemar_exact(lost, gained)
    for b, c in [(0, 0), (0, 1), (3, 9), (24, 24), (7, 1), (20, 2)]:
        theirs = mcnemar([[5, b], [c, 5]], exact=True).pvalue if b + c else 1.0
        assert ours[c, b] == pytest.approx(min(theirs, 1.0), abs=1e-12)
    assert ours.max() <= 1 and ours.shape == (25, 25)


def test_the_unpaired_test_is_scipys_and_would_not_mark_the_papers_largest_loss():
    uncut, cuts = RNG.random(300) < 0.8, RNG.random((2, 300)) < 0.7
    theirs = [scipy.stats.ttest_ind(uncut.astype(float), cut.astype(float)).pvalue for cut in cuts]
    np.testing.assert_allclose(stats.unpaired_t(uncut, cuts), theirs)
    assert stats.unpaired_t([1, 1], [1, 1]) == 1
    uncut = np.arange(9815) < 8186  # 83.4% right, and 0.96 points less
    assert stats.unpaired_t(uncut, np.arange(9815) < 8092) > 0.01


def test_paired_t_is_scipys_and_takes_constant_rows():
    rows = RNG.normal(0.1, 1, size=(2, 3, 50))
    ours, theirs = stats.paired_t(rows), scipy.stats.ttest_1samp(rows, 0, axis=-1)
    np.testing.assert_allclose(ours.p, theirs.pvalue)
    np.testing.assert_allclose((ours.low, ours.high), theirs.confidence_interval(0.95))
    some = stats.paired_t([[0.0, 0.0, 0.0], [0.1, 0.1, 0.1], [1.0, 2.0, 3.0]])
    half = 4.302653 / 3**0.5
    np.testing.assert_allclose(some.value, [0, 0.1, 2])
    np.testing.assert_allclose(
        [some.low, some.high], [[0, 0.1, 2 - half], [0, 0.1, 2 + half]], rtol=1e-6
    )
    np.testing.assert_allclose(some.p, [1, 0, 0.0741799], rtol=1e-5)


@pytest.mark.parametrize("statistic", [metrics.matthews, metrics.f1])
def test_paired_bootstrap_equals_the_loop(statistic):
    target = RNG.integers(0, 2, size=80)
    uncut = np.where(RNG.uniform(size=80) < 0.9, target, 1 - target)
    cuts = np.stack(
        [np.where(RNG.uniform(size=80) < right, target, 1 - target) for right in (0.9, 0.6)]
    )
    cells, cut_cells = metrics.confusion(target, uncut), metrics.confusion(target, cuts)
    ours = stats.paired_bootstrap(statistic, np.stack([cells, *cut_cells]), resamples=400, seed=3)
    loop = np.array(
        [
            [statistic(cut[drawn].sum(0)) - statistic(cells[drawn].sum(0)) for cut in cut_cells]
            for drawn in stats.bootstrap_indices(80, 400, 3)
        ]
    )
    np.testing.assert_allclose((ours.low, ours.high), np.quantile(loop, [0.025, 0.975], axis=0))
    tails = np.minimum((loop <= 0).sum(0), (loop >= 0).sum(0))
    np.testing.assert_allclose(ours.p, np.minimum(1, 2 * (1 + tails) / 401))
    assert ours.p[1] < 0.05 and ours.high[1] < 0


def test_curves_of_the_same_runs_can_share_their_draws_of_them():
    curve = RNG.uniform(size=(3, 2, 50))
    names = {"a": "runs", "b": "runs"}
    drawn = stats.bootstrap_curves({"a": curve, "b": curve + 1, "c": curve}, 99, 0, together=names)
    np.testing.assert_allclose(drawn["b"] - drawn["a"], 1, atol=1e-6)
    assert not np.allclose(drawn["c"], drawn["a"])
    runs = np.arange(3.0)[:, None, None] * np.ones((3, 2, 50))  # texts do not differ
    first, again, other = (stats.bootstrap_curves({"a": runs}, 99, seed)["a"] for seed in (0, 0, 1))
    np.testing.assert_array_equal(again, first)
    assert not np.allclose(other, first)


@pytest.mark.parametrize(
    ("method", "reference"),
    [("pearson", scipy.stats.pearsonr), ("spearman", scipy.stats.spearmanr)],
)
def test_correlation_equals_scipy(method, reference):
    x = RNG.integers(0, 8, size=40).astype(float)
    y = x + RNG.normal(0, 3, size=40)
    ours = stats.correlation(x, y, method, resamples=200, seed=4)
    assert (ours.value, ours.p) == pytest.approx(tuple(reference(x, y)))
    loop = [reference(x[i], y[i])[0] for i in stats.bootstrap_indices(40, 200, 4)]
    assert (ours.low, ours.high) == pytest.approx(tuple(np.quantile(loop, [0.025, 0.975])))


def plain_partial(x, y, given, groups):
    """Ranks, then a textbook least squares with an intercept and all groups but the first."""
    x, y, *given = (scipy.stats.rankdata(side) for side in (x, y, *given))
    others = [(groups == group).astype(float) for group in np.unique(groups)[1:]]
    design = np.column_stack([np.ones(len(x)), *others, *given])
    left = [side - design @ np.linalg.lstsq(design, side)[0] for side in (x, y)]
    return scipy.stats.pearsonr(*left)[0]


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_partial_correlation_is_that_of_the_residuals_of_ranks(rows):
    given = RNG.normal(size=(rows, 36))
    groups = np.repeat(np.arange(6), 6)
    x = RNG.normal(size=36) + given.sum(0) + groups
    y = RNG.integers(0, 20, size=36) + 0.3 * x
    ours = stats.partial_spearman(x, y, given, groups, resamples=60, seed=4)
    assert ours.value == pytest.approx(plain_partial(x, y, given, groups))
    free = 36 - rows - len(np.unique(groups)) - 1
    t = ours.value * np.sqrt(free / (1 - ours.value**2))
    assert ours.p == pytest.approx(2 * scipy.stats.t.sf(abs(t), free))
    loop = [
        plain_partial(x[i], y[i], given[:, i], groups[i])
        for i in stats.bootstrap_indices(36, 60, 4)
    ]
    assert (ours.low, ours.high) == pytest.approx(tuple(np.quantile(loop, [0.025, 0.975])))
    with pytest.raises(ValueError, match="Give more heads"):  # of two nothing is left
        stats.partial_spearman(x[:2], y[:2], given[:, :2], np.arange(2), 5)


def test_split_half_reliability_of_known_noise():
    truth, noise = RNG.normal(size=(400, 1)), RNG.normal(size=(400, 100))
    assert stats.split_half_reliability(truth + 10 * noise) == pytest.approx(0.5, abs=0.1)
    assert stats.split_half_reliability(truth + 0.1 * noise) > 0.99
    assert abs(stats.split_half_reliability(noise)) < 0.2
    assert stats.split_half_reliability(np.zeros((5, 10))) == 0


@pytest.mark.parametrize("runs", [None, 3, 5])
def test_power_is_how_often_an_interval_lies_above(runs, drawn_seed):
    draws = np.random.default_rng(drawn_seed).normal(0.2, 0.1, (20_000, runs or 1))
    if runs:
        low = scipy.stats.ttest_1samp(draws, 0.0, axis=1).confidence_interval(0.95).low
        power = stats.power_above(0.2, 0.05, 0.1 / np.sqrt(runs), runs - 1)
    else:  # of a normal distribution
        low, power = draws[:, 0] - 1.96 * 0.1, stats.power_above(0.2, 0.05, 0.1)
    assert power == pytest.approx((low > 0.05).mean(), abs=0.015)


def test_what_is_detectable_is_found_four_times_in_five():
    error = stats.standard_error([-0.02, 0.03])
    assert error == pytest.approx(0.05 / 3.92, rel=1e-3)
    assert stats.power_above(stats.detectable(error), 0.0, error) == pytest.approx(0.8, abs=1e-6)


def _sweep(seed, error):
    change = np.zeros(20)
    drawn = np.random.default_rng(seed).normal(0, error, (500, 20))
    return change, change - 1.96 * error, drawn


def test_the_interval_of_a_share_is_that_of_moved_intervals(drawn_seed):
    change, low, drawn = _sweep(drawn_seed, error=0.006)
    share, ends = stats.share_above(change, low, drawn, -0.01)
    assert share == 0.0  # -0.01176 is below the bound
    plain = [np.mean([low[i] + row[i] > -0.01 for i in range(len(low))]) for row in drawn]
    assert ends == pytest.approx(np.quantile(plain, [0.025, 0.975]))


def test_the_power_of_a_share_falls_with_the_noise(drawn_seed):
    rule = {"bound": -0.01, "spared": 18, "least": 0.8, "least_low": 0.7, "worlds": 100}
    powers = [
        stats.power_of_share(*_sweep(drawn_seed, error=error), **rule)
        for error in (0.001, 0.004, 0.01)
    ]
    assert powers[0] == 1.0 and powers[2] == 0.0 and powers[0] >= powers[1] >= powers[2]
    # fewer cuts that truly cost nothing than the rule asks for
    assert stats.power_of_share(*_sweep(drawn_seed, error=0.001), **{**rule, "spared": 15}) == 0.0


def test_leaving_one_head_out_is_a_plain_loop(drawn_seed):
    x, y = np.random.default_rng(drawn_seed).normal(size=(2, 9)).round(1)
    plain = [scipy.stats.spearmanr(np.delete(x, i), np.delete(y, i))[0] for i in range(len(x))]
    assert stats.spearman_without_one(x, y) == pytest.approx((min(plain), max(plain)))


def test_influences_add_up_to_the_jackknifes_variance():
    cells = metrics.confusion(*np.random.default_rng(0).integers(0, 2, (2, 60)))
    without = [metrics.matthews(np.delete(cells, i, 0).sum(0)) for i in range(60)]
    variance = 59 / 60 * np.square(without - np.mean(without)).sum()
    influences = stats.text_influences(metrics.matthews, cells[None])
    assert np.square(influences).sum() == pytest.approx(variance)
    right = np.random.default_rng(1).random((2, 60, 1)) < 0.7  # of a mean it is exact
    influences = stats.text_influences(lambda sums: sums[..., 0] / 60, right)
    error = right[..., 0].std(1) / 60**0.5
    np.testing.assert_allclose(np.square(influences).sum(1) ** 0.5, error, rtol=0.02)


def test_the_interval_by_hand():
    values, influences = [0.2, 0.3, 0.7], [[0.1, -0.1, 0.0], [0.2, -0.2, 0.0], [0.0, 0.0, 0.0]]
    of_trainings, of_texts = (0.04 + 0.01 + 0.09) / 2 / 3, 0.1**2 + 0.1**2
    freedom = (of_trainings + of_texts) ** 2 / (of_trainings**2 / 2 + of_texts**2 / 2)
    mean = stats.over_trainings(values, influences)
    error = (of_trainings + of_texts) ** 0.5
    assert (mean.value, mean.error, mean.freedom) == pytest.approx((0.4, error, freedom))
    half = scipy.stats.t.ppf(0.975, freedom) * error
    assert (mean.low, mean.high) == pytest.approx((0.4 - half, 0.4 + half))
    alone = stats.over_trainings(values[:1], influences[:1])
    assert (alone.error, alone.freedom) == pytest.approx((0.02**0.5, 2))


def test_trainings_whose_texts_are_noise_that_they_share():
    rng = np.random.default_rng(5)
    values, texts = rng.normal(0.5, 0.1, 4), rng.normal(0, 0.001, 5000)
    alike = stats.over_trainings_alike(values, [np.sqrt((texts**2).sum())] * 4)
    every = stats.over_trainings(values, np.tile(texts, (4, 1)))
    assert alike.value == every.value
    assert alike.error == pytest.approx(every.error)
    assert alike.low == pytest.approx(every.low, abs=1e-4)  # of 5,000 texts, not of infinitely many
    alone = stats.over_trainings_alike([0.5], [0.1])
    assert (alone.low, alone.high) == pytest.approx((0.5 - 0.196, 0.5 + 0.196), abs=1e-4)


def test_compare_mts_p_is_a_plain_loops():
    """Half of the sentences without replacement; one minus the better system's share of wins."""
    rng, generator = np.random.default_rng(5), random.Random(2)
    uncut = rng.integers(0, 9, (40, 1))
    cuts = np.stack([uncut - rng.binomial(5, lost, (40, 1)) + 2 for lost in (0.45, 0.4, 1.0)])

    def total(sums):
        return sums[..., 0]

    ours = stats.share_of_wins(total, np.stack([uncut, *cuts]), resamples=4000, seed=1)
    for p, cut in zip(ours, cuts, strict=True):
        wins = [0, 0]
        for _ in range(1500):
            chosen = generator.sample(range(40), 20)
            first, second = uncut[chosen].sum(), cut[chosen].sum()
            wins[0] += first > second
            wins[1] += second > first
        assert p == pytest.approx(1 - max(wins) / 1500, abs=0.04)
    assert ours[2] == 0 and min(ours[:2]) > 0 and max(ours) <= 0.51
    assert stats.share_of_wins(total, np.stack([uncut, uncut]), 50, 0)[0] == 1  # always level
