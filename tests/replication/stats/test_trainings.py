"""Intervals over few trainings cover, and compare-mt's test is a plain loop's."""

import random

import numpy as np
import pytest
import scipy.stats

from headprune_lib.replication import stats
from headprune_lib.replication.stats.bleu import corpus_bleu


def test_influences_add_up_to_the_jackknifes_variance():
    cells = stats.confusion(*np.random.default_rng(0).integers(0, 2, (2, 60)))
    without = [stats.matthews(np.delete(cells, i, 0).sum(0)) for i in range(60)]
    variance = 59 / 60 * np.square(without - np.mean(without)).sum()
    influences = stats.text_influences(stats.matthews, cells[None])
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
    with pytest.raises(ValueError, match="numbers of trainings"):
        stats.over_trainings([1.0], influences)


def test_of_three_trainings_it_covers_where_the_percentile_bootstrap_does_not():
    """Trainings differ about as much as texts make the mean uncertain, as MPNet's on SST-2 do."""
    rng, worlds, texts, resamples = np.random.default_rng(3), 2_000, 100, 300
    common = rng.normal(0, 1, (worlds, 1, texts))
    own = rng.normal(0, 0.6, (worlds, 3, texts))
    outcomes = rng.normal(0, 0.2, (worlds, 3, 1)) + common + own  # the truth is 0
    values = outcomes.mean(-1)
    influences = (outcomes - values[..., None]) / texts
    means = [stats.over_trainings(*one) for one in zip(values, influences, strict=True)]
    covered = np.mean([mean.low <= 0 <= mean.high for mean in means])
    weights = rng.multinomial(texts, np.full(texts, 1 / texts), resamples) / texts
    scores = outcomes @ weights.T  # (worlds, trainings, resamples)
    chosen = rng.integers(0, 3, (3, resamples))
    drawn = scores[:, chosen, np.arange(resamples)].mean(1)
    low, high = np.quantile(drawn, [0.025, 0.975], axis=1)
    bootstrap = ((low <= 0) & (high >= 0)).mean()
    assert bootstrap < 0.93 <= covered <= 0.975
    assert bootstrap > 0.8


def plain_bleu(sentences):
    """BLEU of summed counts, written out; no order of these is without a match."""
    sums = [sum(column) for column in zip(*sentences, strict=True)]
    precisions = [sums[i] / sums[4 + i] for i in range(4)]
    brevity = min(1.0, np.exp(1 - sums[9] / sums[8]))
    return 100 * brevity * np.prod(precisions) ** 0.25


def test_compare_mts_p_is_a_plain_loops():
    """Half of the sentences without replacement; one minus the better system's share of wins."""
    rng = np.random.default_rng(5)
    totals = np.tile([10, 9, 8, 7], (40, 1))
    lengths = np.full((40, 2), 10)

    def system(lost):
        matches = totals - rng.binomial(3, lost, (40, 4)) - 2
        return np.concatenate([matches, totals, lengths], 1)

    uncut, cuts = system(0.3), np.stack([system(0.36), system(0.3), system(0.9)])
    ours = stats.share_of_wins(corpus_bleu, uncut, cuts, resamples=4000, seed=1)
    generator = random.Random(2)
    for p, cut in zip(ours, cuts, strict=True):
        wins = [0, 0]
        for _ in range(1500):
            chosen = generator.sample(range(40), 20)
            scores = [plain_bleu([one[i].tolist() for i in chosen]) for one in (uncut, cut)]
            wins[0] += scores[0] > scores[1]
            wins[1] += scores[1] > scores[0]
        assert p == pytest.approx(1 - max(wins) / 1500, abs=0.04)
    assert ours[2] == 0 and min(ours[:2]) > 0 and max(ours) <= 0.51
    assert stats.share_of_wins(corpus_bleu, uncut, uncut[None], 50, 0)[0] == 1  # always level
