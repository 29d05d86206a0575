"""What trainings keep, with intervals over them, on made-up outcomes."""

import dataclasses

import numpy as np
import pytest

from headprune_lib.replication import stats, store
from headprune_lib.replication.claims import kept, questions
from headprune_lib.replication.claims.evidence import rows_of
from headprune_lib.replication.data import TASKS
from headprune_lib.replication.store import Key, Part, Result

SHARES, LABELS = np.array([0.0, 0.4, 1.0]), np.array([0, 1] * 100, np.int8)
RECIPE = {"learning_rate": 2e-5}


def part(seed, weights, texts=200, labels=LABELS, draw=None, **recipe):
    """One training whose steps get 90%, 80% and 50% of the answers right, drawn at random."""
    rng = np.random.default_rng(seed if draw is None else draw)
    correct = rng.random((1, 3, 200)) < np.array([0.9, 0.8, 0.5])[:, None]
    raw = {"shares": SHARES, "labels": labels[:texts], "correct": correct[..., :texts]}
    signature = {
        "own": {"n_scoring": 9},
        "recipe": {f"seed {seed}": {**RECIPE, "seed": seed, **recipe}},
    }
    return Part(signature, [{"seed": seed, "weights_sha256": weights}], {"date": "2026"}, raw)


def result(measurement, parts):
    about = ("snli", "minilm", "default", "snli/test", 200, "accuracy", "share")
    return Result(measurement, *about, {"curves": {}}, "", parts)


@pytest.fixture
def curve(tmp_path):
    further = {
        "importance": part(1, "d"),
        "importance training 2": part(2, "a"),  # weights that are known already
        "importance training 3": part(3, "e", texts=100),
        "importance training 4": part(4, "f", learning_rate=1e-3),
        "importance training 5": part(5, "g", labels=LABELS[::-1]),
        "random": part(6, "h"),
    }
    store.save(result("which_first", further), tmp_path)
    own = {
        "importance": part(7, "a"),
        "importance training 8": part(8, "b"),
        "random": part(7, "a"),
    }
    return result("pruning_curve", own)


def test_fine_tunings_of_one_recipe_count_together_on_the_same_texts(curve, tmp_path):
    assert [one.weights for one in kept.along(curve, "importance")] == ["a", "b"]
    pooled = kept.pooled(curve, "importance", tmp_path)
    assert [one.weights for one in pooled] == ["a", "b", "d", "e"]
    found = kept.at_share(pooled, 0.4)
    scores = np.array([one.scores for one in pooled])
    above = scores.mean(0) - 0.5
    assert found["kept"] == pytest.approx(above[1] / above[0])
    assert found["raw"] == pytest.approx(scores[:, 1].mean() / scores[:, 0].mean())
    assert found["trainings"] == 4 and found["interval"][0] < found["kept"] < found["interval"][1]
    assert kept.at_share(pooled, 0.3) is None


def test_the_interval_of_one_training_is_that_of_its_texts(drawn_seed):
    found = kept.at_share(kept.along(result("", {"importance": part(0, "a")}), "importance"), 0.4)
    right = part(0, "a").raw["correct"][0]
    texts = np.random.default_rng(drawn_seed).integers(0, 200, (4000, 200))
    uncut, cut = (right[step][texts].mean(1) - 0.5 for step in (0, 1))
    assert found["error"] == pytest.approx((cut / uncut).std(), rel=0.1)
    assert found["freedom"] == pytest.approx(199)


def test_a_difference_of_orders_is_paired_within_trainings():
    parts = {"importance": part(1, "a"), "oracle leak-free": part(1, "a", draw=1)}
    orders = (kept.along(result("", parts), order) for order in parts)
    first, second = kept.shared(*orders)
    weights = [kept.area_weights(SHARES, 0.4)]
    assert weights[0].tolist() == [0.5, 0.5, 0.0]
    mean = kept.mean_kept(first, weights, second)
    assert (mean.value, mean.error) == pytest.approx((0, 0), abs=1e-12)
    assert kept.shared(first, []) == ([], [])


def test_nothing_can_be_kept_where_the_whole_model_may_be_at_chance():
    (training,) = kept.along(result("", {"importance": part(1, "a")}), "importance")
    weak = dataclasses.replace(training, chance=float(training.scores[0]) - 0.01)
    assert kept.at_share([weak], 0.4)["kept"] is None


@pytest.mark.parametrize("held", [False, True])
def test_only_the_new_pairs_of_a_task_count(curve, tmp_path, held):
    if held:
        path = Key("pruning_curve", "snli-held", "minilm").path(tmp_path)
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (row,) = [row for row in rows_of(curve, tmp_path) if row.claim == "C3"]
    assert (row.why_not == "the new pairs of the task count") is held


def test_what_most_berts_get_right_and_the_rest_are_judged_apart(monkeypatch):
    measured = (store.load(Key(of, "reviews", "minilm")) for of in ("pruning_curve", "one_head"))
    curve, heads = measured
    ((name, sha256),) = heads.parts["outcomes"].signature["data"].items()
    counted = questions.right_of_100_berts()
    assert TASKS["mnli"].registered[counted["dataset"]] == counted["sha256"]
    assert len(counted["right"]) == 9815 and sum(n >= 90 for n in counted["right"]) == 7563
    counted = {"dataset": name, "sha256": sha256, "right": [90, 89, 90] * 900}
    monkeypatch.setattr(questions, "right_of_100_berts", lambda: counted)
    curve, heads = (dataclasses.replace(one, dataset=name) for one in (curve, heads))
    every, easy, hard = questions.strata(curve, heads)
    assert every.one_at_a_time.measured == rows_of(heads)[0].judged.measured
    raw, uncut, cut = (
        curve.parts["importance"].raw,
        heads.raw["correct_uncut"],
        heads.raw["correct"],
    )
    for group, berts in ((easy, 90), (hard, 89)):
        texts = np.array(counted["right"])[:2499] == berts
        accuracy = raw["correct"][..., texts].mean((0, 2))
        chance = np.bincount(raw["labels"][texts]).max() / group.n
        assert (group.n, group.berts) == pytest.approx((texts.sum(), berts / 100))
        assert (group.uncut.value, group.chance) == pytest.approx((accuracy[0], chance))
        (found,) = group.together.estimates
        assert found.value == pytest.approx((accuracy[6] - chance) / (accuracy[0] - chance))
        lost, gained = (sides[:, texts].sum(1) for sides in (uncut & ~cut, ~uncut & cut))
        low, _ = stats.paired_proportion_interval(lost, gained, group.n)
        assert group.one_at_a_time.measured.startswith(f"{(low > -0.01).sum()} of 72 heads")
    assert questions.strata(curve, None)[0].one_at_a_time.word == "not run"
    counted["sha256"] = "of another order"
    assert questions.strata(curve, heads) == []
