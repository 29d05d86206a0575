"""Scores on other text and trainings, against plain scoring and plain statistics."""

import numpy as np
import pytest
import scipy.stats

from headprune_lib import score_heads
from headprune_lib.replication import measurements, stats
from headprune_lib.replication.data import TASKS
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.measurements.stability import CRITERIA, PLAIN


@pytest.fixture(scope="module")
def result(smoke):
    parts = (*CRITERIA, "importance training 2", "entropy training 2")
    return measurements.get("stability", smoke, parts=parts)


def test_scores_are_those_on_each_text(result, smoke):
    subject = EncoderSubject.of(smoke, kernel="eager")
    texts = {
        "synthetic": subject.scoring,
        "synthetic-far": TASKS["synthetic-far"].split("test", None).first(smoke.n_domain),
    }
    for order, by, normalize in (
        ("importance", "importance", "l2"),
        (PLAIN, "importance", None),
        ("fisher", "fisher", "own"),
        ("confidence", "confidence", "own"),
    ):
        raw = result.parts[order].raw
        assert raw["texts"].tolist() == [*texts]
        for name, examples in texts.items():
            batches = subject.batches(examples).batches
            expected = score_heads(subject.model, batches, by, normalize=normalize)["self"]
            np.testing.assert_allclose(raw[f"scores {name}"], expected, rtol=1e-3, atol=1e-9)
        if order != "magnitude":
            assert (raw["scores synthetic"] != raw["scores synthetic-far"]).any()


def test_a_further_training_is_scored_on_its_own_text_alone(result, smoke):
    part = result.parts["entropy training 2"]
    assert [run["seed"] for run in part.runs] == [2] and part.raw["texts"].tolist() == ["synthetic"]
    assert "effect" not in part.raw
    other = EncoderSubject.of(smoke, 2, "eager")
    expected = score_heads(other.model, other.batches(other.scoring).batches, "entropy")["self"]
    np.testing.assert_allclose(part.raw["scores synthetic"], expected, rtol=1e-4)


def test_correlations_are_scipys(result):
    raw, values = result.parts["importance"].raw, result.values["criteria"]
    own = raw["scores synthetic"].ravel()
    expected = scipy.stats.spearmanr(own, raw["scores synthetic-far"].ravel())[0]
    found = values["importance"]
    assert found["domains"]["synthetic-far"]["r"] == pytest.approx(expected, rel=1e-5)
    assert found["effect"]["r"] == pytest.approx(
        scipy.stats.spearmanr(own, raw["effect"].ravel())[0], rel=1e-5
    )
    other = result.parts["importance training 2"].raw["scores synthetic"].ravel()
    (pair,) = found["trainings"]
    assert pair["seeds"] == [1, 2]
    assert pair["r"] == pytest.approx(scipy.stats.spearmanr(own, other)[0], rel=1e-5)
    assert found["mean_trainings"] == pair["r"]
    assert values["fisher"]["trainings"] == [] and values["fisher"]["mean_trainings"] is None


def test_the_effect_is_the_mean_change_of_the_loss_without_the_head(result, smoke):
    one_head = measurements.get("one_head", smoke).raw
    effect = result.parts["fisher"].raw["effect"]
    for (layer, head), change in zip(one_head["heads"], one_head["loss_change"], strict=True):
        assert effect[layer, head] == pytest.approx(change.mean() / 1000)
    assert np.ptp(effect) > 0


def test_what_is_held_fixed_are_layers_and_then_importance_as_it_is(result):
    plain = result.parts[PLAIN].raw["scores synthetic"].ravel()
    for order, part in result.parts.items():
        if order not in CRITERIA:
            continue
        own, effect = part.raw["scores synthetic"].ravel(), part.raw["effect"].ravel()
        layers = np.repeat(np.arange(2), 4)
        found = result.values["criteria"][order]
        alone = stats.partial_spearman(own, effect, [], layers, 10)
        assert found["given_layer"]["r"] == pytest.approx(alone.value, rel=1e-5)
        if order.startswith("importance"):
            assert found["given_both"] is None
            continue
        both = stats.partial_spearman(own, effect, [plain], layers, 10)
        assert found["given_both"]["r"] == pytest.approx(both.value, rel=1e-5)


def test_what_is_scored_again_at_each_step_has_no_scores_to_compare(smoke):
    with pytest.raises(ValueError, match="is scored again at each step"):
        measurements.get("stability", smoke, parts=("importance rescored",))
