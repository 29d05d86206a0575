"""Scores on few sentences: what is drawn, what is scored, and what follows."""

import dataclasses
import itertools

import numpy as np
import pytest
import scipy.stats

from headprune_lib import prune_order, score_heads
from headprune_lib.replication import measurements
from headprune_lib.replication.data import TASKS, Examples
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.measurements import compared, scoring_examples
from headprune_lib.replication.measurements.scoring_examples import (
    CRITERIA,
    DRAWS,
    Statistics,
    drawn,
    sizes_of,
)
from headprune_lib.replication.measurements.shared_masks import losses_under
from headprune_lib.replication.store import Journal

ORDERS = (*CRITERIA, "fisher")


@pytest.fixture(scope="module")
def result(smoke):
    return measurements.get("scoring_examples", smoke, parts=ORDERS)


@pytest.fixture(scope="module")
def pool(smoke):
    """The last 64 training sentences: twice as many as others are scored on."""
    train = TASKS["synthetic"].split("train", None)
    return Examples(train.texts[-64:], train.labels[-64:])


def test_draws_share_no_sentence_and_the_larger_contain_the_smaller():
    texts = Examples(tuple(f"text {i}" for i in range(4000)), tuple(i % 2 for i in range(4000)))
    found = {(n, draw): {*some.texts} for n, draw, some in drawn(texts)}
    assert [*found] == [*itertools.product((16, 64, 256, 1000), range(3)), (4000, 0)]
    for (n, draw), some in found.items():
        assert len(some) == n
        larger = found.get((n * 4, draw), some)
        assert some <= larger
    for one, other in itertools.combinations(range(DRAWS), 2):
        assert not found[1000, one] & found[1000, other]
    some = next(drawn(texts))[2]
    assert [int(text[5:]) % 2 for text in some.texts] == [*some.labels]


def test_scores_and_losses_are_those_of_the_drawn_sentences(result, smoke, pool, tmp_path):
    subject = EncoderSubject.of(smoke, kernel="eager")
    for order in ORDERS:
        raw = result.parts[order].raw
        assert raw["n"].tolist() == [16, 16, 16, 64] and raw["draw"].tolist() == [0, 1, 2, 0]
        for row, (n, _, texts) in enumerate(drawn(pool)):
            assert len(texts) == n
            scores = score_heads(subject.model, subject.batches(texts).batches, order)
            np.testing.assert_allclose(raw["scores"][row], scores["self"], rtol=1e-3, atol=1e-9)
        masks = compared.masks_along(subject, prune_order(scores), compared.COMPARED)
        loss = losses_under(subject, masks, subject.test, Journal(tmp_path / order))
        np.testing.assert_allclose(
            raw["loss_area"][-1], compared.loss_area(compared.COMPARED, loss), atol=2
        )
        np.testing.assert_allclose(raw["log_loss"][-1], loss.mean(1), rtol=1e-3)
    different = {tuple(row.ravel()) for row in result.parts["importance"].raw["scores"]}
    assert len(different) == 4


def made_up(seed=0, n=30):
    generator = np.random.default_rng(seed)
    return {
        "n": np.array([16, 16, 16, 64]),
        "draw": np.array([0, 1, 2, 0]),
        "scores": generator.random((4, 3, 6)),
        "correct": generator.random((4, 11, n)) < np.linspace(0.9, 0.6, 11)[:, None],
        "loss_area": generator.integers(0, 300, (4, n)),
        "log_loss": generator.random((4, 11)),
        "shares": np.array(compared.COMPARED),
        "labels": np.arange(n) % 2,
        "metric": np.array("accuracy"),
    }


def test_values_are_means_over_draws():
    raw = made_up()
    few, whole = scoring_examples._sizes(raw, Statistics(resamples=200))
    assert (few["n"], whole["n"]) == (16, 64)
    flat = raw["scores"].reshape(4, -1)
    ranks = [scipy.stats.spearmanr(flat[i], flat[3])[0] for i in range(3)]
    assert few["each"] == pytest.approx(ranks)
    assert few["with_all"]["value"] == pytest.approx(np.mean(ranks))
    pairs = [scipy.stats.spearmanr(flat[i], flat[j])[0] for i, j in ((0, 1), (0, 2), (1, 2))]
    assert few["between"] == pytest.approx(np.mean(pairs))
    assert whole["with_all"]["value"] == 1 and whole["between"] is None
    assert whole["lost"]["value"] == whole["loss_lost"]["value"] == 0
    assert whole["lost"]["interval"] == [0, 0]
    curve = raw["correct"][:3].mean((0, 2))
    kept = (curve - 0.5) / (curve[0] - 0.5)
    area = sum((kept[j] + kept[j + 1]) / 2 * 0.05 for j in range(10)) / 0.5
    assert few["area"]["value"] == pytest.approx(area)
    assert few["lost"]["value"] == pytest.approx(whole["area"]["value"] - area)
    added = raw["loss_area"].mean(1) / 1000
    assert few["loss_lost"]["value"] == pytest.approx(added[:3].mean() - added[3])
    low, high = few["loss_lost"]["interval"]
    assert low < few["loss_lost"]["value"] < high


def test_the_interval_of_a_rank_is_over_draws_and_heads():
    raw, statistics = made_up(1), Statistics(resamples=40, seed=5)
    found = scoring_examples._ranks(raw, 16, statistics)
    flat = raw["scores"].reshape(4, -1)
    generator = np.random.default_rng([5, 16])
    heads, chosen = generator.integers(0, 18, (40, 18)), generator.integers(0, 3, (40, 3))
    loop = [
        np.mean([scipy.stats.spearmanr(flat[d][own], flat[3][own])[0] for d in draws])
        for own, draws in zip(heads, chosen, strict=True)
    ]
    assert found["with_all"]["interval"] == pytest.approx(np.quantile(loop, [0.025, 0.975]))


def test_sentences_of_choices_are_not_scored_on(smoke):
    with pytest.raises(ValueError, match="so that no sentence is in both"):
        measurements.get("scoring_examples", dataclasses.replace(smoke, n_scoring=90))


def test_sizes_leave_room_for_draws():
    assert sizes_of(4000) == (16, 64, 256, 1000, 4000) and sizes_of(60) == (16, 60)
