"""Statistics against scipy, statsmodels, published values, hand computation and exact coverage."""

import gc

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from headprune_lib.replication import stats

RNG = np.random.default_rng(20190525)


def test_gini_is_the_mean_absolute_difference():
    rows = np.random.default_rng(0).exponential(size=(3, 17))
    pairs = np.abs(rows[:, :, None] - rows[:, None]).mean((1, 2)) / (2 * rows.mean(1))
    np.testing.assert_allclose(stats.gini(rows), pairs)
    np.testing.assert_allclose(
        stats.gini([[2, 2, 2], [0, 0, 5], [0, 0, 0]]), [0, 2 / 3, 0], atol=1e-15
    )
    with pytest.raises(ValueError, match="none below 0"):
        stats.gini([1.0, -1.0])


SHARES = np.linspace(0, 1, 11)


@pytest.fixture(autouse=True, scope="module")
def cheap_garbage_collection():
    """statsmodels collects garbage in each multipletests, 0.2 s over all that is imported here."""
    gc.freeze()
    yield
    gc.unfreeze()


# --- McNemar, interval, power ---------------------------------------------------------------------


def test_mcnemar_equals_statsmodels_for_every_pair_of_small_counts():
    lost, gained = np.meshgrid(np.arange(25), np.arange(25))
    ours = stats.mcnemar_exact(lost, gained)
    for b, c in [(0, 0), (0, 1), (3, 9), (24, 24), (7, 1), (20, 2)]:
        theirs = mcnemar([[5, b], [c, 5]], exact=True).pvalue if b + c else 1.0
        assert ours[c, b] == pytest.approx(min(theirs, 1.0), abs=1e-12)
    assert ours.max() <= 1 and ours.shape == (25, 25)


@pytest.mark.parametrize(
    ("lost", "gained", "n", "low", "high"),
    [
        (7, 1, 21, -0.517, -0.026),  # Fagerland, Lydersen and Laake 2014, airway data: Tango
        (0, 0, 100, -3.8415 / 103.8415, 3.8415 / 103.8415),  # z^2 / (n + z^2)
        (
            5,
            0,
            5,
            -1.0,
            -1 + 2 * 3.8415 / (5 + 3.8415),
        ),  # Wilson's interval for 5 of 5, as a change
    ],
)
def test_interval_golden(lost, gained, n, low, high):
    assert stats.paired_proportion_interval(lost, gained, n) == pytest.approx((low, high), abs=6e-4)


def test_interval_swaps_with_its_arguments_and_agrees_with_the_score_test():
    lost, gained = RNG.integers(0, 60, size=(2, 300))
    low, high = stats.paired_proportion_interval(lost, gained, 500)
    mirrored = stats.paired_proportion_interval(gained, lost, 500)
    np.testing.assert_allclose((low, high), (-mirrored[1], -mirrored[0]), atol=1e-12)
    assert ((low <= (gained - lost) / 500) & ((gained - lost) / 500 <= high)).all()
    z = np.abs(gained - lost) / np.sqrt(np.maximum(gained + lost, 1))
    np.testing.assert_array_equal((low > 0) | (high < 0), z > scipy.stats.norm.isf(0.025))


@pytest.mark.parametrize("discordant", [0.002, 0.01, 0.05])
@pytest.mark.parametrize("lost_share", [0.5, 0.8, 1.0])
def test_interval_covers_at_small_discordance(discordant, lost_share, n=2400):
    """Exact coverage: every outcome weighed by its probability, so no simulation noise."""
    p_lost, p_gained = discordant * lost_share, discordant * (1 - lost_share)
    lost, gained = np.meshgrid(np.arange(200), np.arange(200), indexing="ij")
    weight = scipy.stats.binom.pmf(lost, n, p_lost) * scipy.stats.binom.pmf(
        gained, n - lost, p_gained / (1 - p_lost)
    )
    likely = weight > 1e-9
    low, high = stats.paired_proportion_interval(lost[likely], gained[likely], n)
    change = p_gained - p_lost
    assert weight[likely].sum() > 0.9999
    assert 0.93 <= weight[likely][(low <= change) & (change <= high)].sum() <= 0.99


@pytest.mark.parametrize("share", [0.02, 0.05, 0.2])
def test_smallest_detectable_has_that_power_in_the_exact_test(share, n=2400, alpha=0.01):
    change = stats.smallest_detectable(share, n, alpha)
    discordants, lost = np.meshgrid(np.arange(800), np.arange(800), indexing="ij")
    weight = scipy.stats.binom.pmf(discordants, n, share) * scipy.stats.binom.pmf(
        lost, discordants, (1 + change / share) / 2
    )
    likely = weight > 1e-9
    p = stats.mcnemar_exact(lost[likely], (discordants - lost)[likely])
    assert weight[likely][p < alpha].sum() == pytest.approx(0.8, abs=0.05)


def test_smallest_detectable_without_discordants_or_examples():
    none, few, many = stats.smallest_detectable([0.0, 0.001, 0.3], 2400, 0.01)
    assert 0 < none == few < many  # a change needs that many discordants whatever was observed
    assert stats.smallest_detectable(0.5, 5, 0.01) == np.inf


def test_equivalence_is_strict():
    np.testing.assert_array_equal(
        stats.equivalence([-0.02, -0.01, -0.009, 0.1], 0.01), [False, False, True, True]
    )


# --- Holm, t, ratio -------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_holm_keeps_order_and_never_lowers(p):
    adjusted = stats.holm(p)
    assert (adjusted >= np.array(p) - 1e-12).all() and (adjusted <= 1).all()
    assert (np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0).all()
    assert adjusted.min() == pytest.approx(min(1, len(p) * min(p)))


def test_holm_golden_and_shape():
    np.testing.assert_allclose(
        stats.holm([[0.01, 0.04], [0.03, 0.005]]), [[0.03, 0.06], [0.06, 0.02]]
    )
    p = RNG.uniform(size=(6, 12)) ** 3
    np.testing.assert_array_equal(stats.holm(p).ravel(), multipletests(p.ravel(), method="holm")[1])


def test_paired_t_golden_and_equal_to_scipy():
    hand = stats.paired_t([1.0, 2.0, 3.0])
    assert (hand.value, hand.low, hand.high, hand.p) == pytest.approx(
        (2, 2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5, 0.0741799), abs=1e-5
    )
    rows = RNG.normal(0.1, 1, size=(2, 3, 50))
    ours = stats.paired_t(rows, confidence=0.99)
    theirs = scipy.stats.ttest_1samp(rows, 0, axis=-1)
    np.testing.assert_allclose(ours.p, theirs.pvalue)
    np.testing.assert_allclose((ours.low, ours.high), theirs.confidence_interval(0.99))
    assert ours.value.shape == (2, 3)


def test_paired_t_of_constant_rows():
    rows = stats.paired_t([[0.0, 0.0, 0.0], [0.1, 0.1, 0.1], [1.0, 2.0, 3.0]])
    np.testing.assert_allclose([rows.low[:2], rows.high[:2]], [[0, 0.1], [0, 0.1]])
    assert rows.p[0] == 1 and rows.p[1] == 0 and rows.p[2] == pytest.approx(0.0741799, abs=1e-6)


def test_ratio_interval():
    ratio, low, high = stats.ratio_interval([2.0, 4.0, 8.0], [1.0, 1.0, 1.0])
    half_width = 4.302653 * np.log(2) / 3**0.5
    assert (ratio, low, high) == pytest.approx(
        (4, 4 * np.exp(-half_width), 4 * np.exp(half_width)), rel=1e-5
    )
    assert stats.ratio_interval([3.0, 6.0], [2.0, 4.0]) == pytest.approx((1.5, 1.5, 1.5))
    a, b = RNG.uniform(1, 2, size=(2, 9))
    ratio, low, high = stats.ratio_interval(a, b)
    assert stats.ratio_interval(b, a) == pytest.approx((1 / ratio, 1 / high, 1 / low))


# --- bootstrap ------------------------------------------------------------------------------------


def test_matthews_and_f1_golden():
    target, predicted = RNG.integers(0, 2, size=(2, 300))
    cells = stats.confusion(target, predicted).sum(axis=0)
    assert cells.sum() == 300
    assert stats.matthews(cells) == pytest.approx(np.corrcoef(target, predicted)[0, 1])
    assert stats.f1(np.array([6, 2, 4, 100])) == pytest.approx(12 / 18)
    assert stats.matthews(np.array([0, 0, 4, 9])) == stats.f1(np.array([0, 0, 0, 9])) == 0


@pytest.mark.parametrize("statistic", [stats.matthews, stats.f1])
def test_paired_bootstrap_equals_the_loop(statistic):
    target = RNG.integers(0, 2, size=80)
    uncut = np.where(RNG.uniform(size=80) < 0.9, target, 1 - target)
    cuts = np.stack(
        [np.where(RNG.uniform(size=80) < right, target, 1 - target) for right in (0.9, 0.6)]
    )
    cells, cut_cells = stats.confusion(target, uncut), stats.confusion(target, cuts)
    ours = stats.paired_bootstrap(statistic, cells, cut_cells, resamples=400, seed=3)
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


def test_paired_bootstrap_of_an_unchanged_model_is_no_change():
    cells = stats.confusion([0, 1, 1, 0], [0, 1, 0, 0])
    same = stats.paired_bootstrap(stats.f1, cells, cells[None], resamples=50, seed=0)
    assert (same.value[0], same.low[0], same.high[0], same.p[0]) == (0, 0, 0, 1)


def test_curves_share_the_draw_of_examples_and_nothing_else():
    curve = RNG.uniform(size=(1, 11, 200)) < 0.8
    flipped = curve.copy()
    flipped[0, :, 7] = ~flipped[0, :, 7]
    both = stats.bootstrap_curves({"a": curve, "b": flipped}, resamples=300, seed=5)
    times_drawn = (stats.bootstrap_indices(200, 300, 5) == 7).sum(axis=1)
    np.testing.assert_allclose(
        np.abs(both["a"] - both["b"]), np.repeat(times_drawn[:, None] / 200, 11, axis=1), atol=1e-6
    )
    alone = stats.bootstrap_curves({"b": flipped}, resamples=300, seed=5)
    np.testing.assert_array_equal(alone["b"], both["b"])


def test_curve_spread_is_that_of_examples_and_of_runs():
    one = np.zeros((1, 2, 400), dtype=bool)
    one[:, :, :100] = True
    runs = np.stack([np.ones((2, 400)), np.zeros((2, 400))])
    # 400 * 12,000 draws do not fit one chunk
    spread = stats.bootstrap_curves({"one": one, "runs": runs, "more": runs}, 12_000, seed=1)
    assert spread["one"].mean() == pytest.approx(0.25, abs=0.002)
    assert spread["one"].std(axis=0) == pytest.approx((0.25 * 0.75 / 400) ** 0.5, rel=0.03)
    values, counts = np.unique(spread["runs"][:, 0], return_counts=True)
    np.testing.assert_array_equal(values, [0, 0.5, 1])
    np.testing.assert_allclose(counts / 12_000, [0.25, 0.5, 0.25], atol=0.02)
    # each curve draws its own runs
    assert abs(np.corrcoef(spread["runs"][:, 0], spread["more"][:, 0])[0, 1]) < 0.05


def test_curves_of_the_same_runs_can_share_their_draws_of_them():
    curve = RNG.uniform(size=(3, 2, 50))
    names = {"a": "runs", "b": "runs"}
    drawn = stats.bootstrap_curves({"a": curve, "b": curve + 1, "c": curve}, 99, 0, together=names)
    np.testing.assert_allclose(drawn["b"] - drawn["a"], 1, atol=1e-6)
    assert not np.allclose(drawn["c"], drawn["a"])


# --- pruning curves -------------------------------------------------------------------------------


def test_area_golden():
    assert stats.area_under_curve([0, 0.5, 1], [[1, 1, 1], [1, 0.5, 0]]) == pytest.approx([1, 0.5])
    assert stats.area_under_curve([0.2, 0.4], [0.8, 0.6]) == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("scores", "share"),
    [
        ([0.90, 0.90, 0.892, 0.891, 0.5, 0.5], 0.4),  # at most 0.02 * 0.4 = 0.008 lost
        ([0.90, 0.88, 0.90, 0.90, 0.90, 0.90], 0.0),  # a dip ends it, whatever follows
        ([0.90, 0.91, 0.92, 0.93, 0.94, 0.95], 1.0),
        ([0.50, 0.50, 0.50, 0.50, 0.50, 0.50], 0.0),  # at chance
        ([0.40, 0.60, 0.60, 0.60, 0.60, 0.60], 0.0),  # below chance
    ],
)
def test_prunable_share_golden(scores, share):
    assert stats.prunable_share(SHARES[::2], scores, chance=0.5, tolerance=0.02) == share


curves = st.lists(st.integers(51, 100), min_size=11, max_size=11).map(lambda s: np.array(s) / 100)


@settings(max_examples=60, deadline=None)
@given(curves, curves, st.floats(0.1, 10), st.floats(-3, 3))
def test_prunable_share_invariances(scores, other, scale, shift):
    def share(s, chance=0.5, tolerance=0.0512):
        return stats.prunable_share(SHARES, s, chance, tolerance)

    assert share(scores * scale + shift, 0.5 * scale + shift) == share(scores)
    assert share(scores, tolerance=0.02) <= share(scores) <= share(scores, tolerance=1.01) == 1
    np.testing.assert_array_equal(share(np.stack([scores, other])), [share(scores), share(other)])
    later = scores.copy()
    reached = np.flatnonzero(share(scores) == SHARES)[0]
    later[reached + 2 :] = 1.0  # what comes after the first drop does not matter
    assert share(later) == share(scores)


# --- correlation ----------------------------------------------------------------------------------


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


def test_correlation_interval_ignores_constant_resamples():
    pair = stats.correlation([0.0, 0, 0, 1], [0.0, 0, 0, 2], resamples=300, seed=0)
    assert (pair.value, pair.low, pair.high) == pytest.approx((1, 1, 1))


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
    loop = [
        plain_partial(x[i], y[i], given[:, i], groups[i])
        for i in stats.bootstrap_indices(36, 60, 4)
    ]
    assert (ours.low, ours.high) == pytest.approx(tuple(np.quantile(loop, [0.025, 0.975])))


def test_partial_correlation_of_one_variable_is_the_recursive_formula():
    x, y, z = RNG.normal(size=(3, 50))
    x, y = x + z, y - z
    xy, xz, yz = (scipy.stats.spearmanr(*pair)[0] for pair in ((x, y), (x, z), (y, z)))
    expected = (xy - xz * yz) / np.sqrt((1 - xz**2) * (1 - yz**2))
    found = stats.partial_spearman(x, y, [z], np.zeros(50), resamples=10)
    assert found.value == pytest.approx(expected)
    t = expected * np.sqrt(47 / (1 - expected**2))
    assert found.p == pytest.approx(2 * scipy.stats.t.sf(abs(t), 47))
    plain = stats.partial_spearman(x, y, [], np.zeros(50), resamples=10)
    assert (plain.value, plain.p) == pytest.approx(tuple(scipy.stats.spearmanr(x, y)))


def test_what_only_a_common_cause_ties_together_is_not_tied_given_it():
    cause, (x, y) = RNG.normal(size=4000), RNG.normal(size=(2, 4000))
    x, y = x + 3 * cause, y + 3 * cause
    assert stats.correlation(x, y, "spearman", resamples=5).value > 0.8
    found = stats.partial_spearman(x, y, [cause], np.zeros(4000), resamples=5)
    assert abs(found.value) < 0.1


def test_split_half_reliability_of_known_noise():
    truth, noise = RNG.normal(size=(400, 1)), RNG.normal(size=(400, 100))
    assert stats.split_half_reliability(truth + 10 * noise) == pytest.approx(0.5, abs=0.1)
    assert stats.split_half_reliability(truth + 0.1 * noise) > 0.99
    assert abs(stats.split_half_reliability(noise)) < 0.2
    assert stats.split_half_reliability(np.zeros((5, 10))) == 0


def test_perfect_reliability_and_the_ceiling():
    assert stats.split_half_reliability(np.outer([1, 2, 4], np.ones(4)), splits=3) == (
        pytest.approx(1.0)
    )
    assert stats.correlation_ceiling(0.9, 0.4) == pytest.approx(0.6)
    assert stats.correlation_ceiling(-0.1, 0.4) == 0


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stats.holm([0.1, np.nan]), "1 NaN of 2"),
        (lambda: stats.holm([0.1, 1.2]), r"\[0, 1\]"),
        (lambda: stats.holm([]), "p is empty"),
        (lambda: stats.mcnemar_exact([1, 2], [1]), r"\(2,\) and \(1,\)"),
        (lambda: stats.mcnemar_exact([-1], [1]), "whole numbers"),
        (lambda: stats.paired_proportion_interval(5, 6, 10), "n is 10, but 11"),
        (lambda: stats.smallest_detectable(1.5, 100, 0.05), "discordant_share"),
        (lambda: stats.paired_t([[1.0], [2.0]]), "on the last axis"),
        (lambda: stats.ratio_interval([1.0, 0.0], [1.0, 1.0]), "> 0"),
        (lambda: stats.bootstrap_indices(0, 5, 0), "at least 1"),
        (lambda: stats.bootstrap_curves({}, 5, 0), "no curve"),
        (lambda: stats.bootstrap_curves({"a": np.ones((1, 2, 3))}, 0, 0), "resamples is 0"),
        (
            lambda: stats.bootstrap_curves(
                {"a": np.ones((1, 2, 3)), "b": np.ones((1, 2, 4))}, 5, 0
            ),
            "b and the first curve",
        ),
        (lambda: stats.confusion([0, 2], [0, 1]), "classes 0 and 1"),
        (
            lambda: stats.paired_bootstrap(stats.f1, np.ones((3, 4)), np.ones((1, 2, 4)), 5, 0),
            "differ",
        ),
        (lambda: stats.area_under_curve([0, 0.5], [1, 1, 1]), "lengths of shares and scores"),
        (lambda: stats.area_under_curve([0, 0], [1, 1]), "each above the last"),
        (lambda: stats.prunable_share([0.1, 0.2], [1, 1], 0, 0.02), "expected 0, the unpruned"),
        (lambda: stats.correlation([1, 1, 1], [1, 2, 3]), "not all alike"),
        (lambda: stats.correlation([1, 2, 3], [1, 2, 3], "kendall"), "kendall"),
        (lambda: stats.split_half_reliability(np.ones((2, 9))), "3 heads"),
        (
            lambda: stats.partial_spearman(range(9), [1, 3, 2] * 3, [range(9)], np.zeros(9), 5),
            "none that the others determine",
        ),
        (lambda: stats.partial_spearman([1, 2], [2, 1], [], [0, 1], 5), "expected more heads"),
    ],
)
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()
