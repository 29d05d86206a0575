"""What trainings keep, with intervals over them, on made-up outcomes."""

from dataclasses import replace

import numpy as np
import pytest

from headprune_lib.replication import store
from headprune_lib.replication.claims import kept, questions
from headprune_lib.replication.claims.evidence import rows_of
from headprune_lib.replication.store import Key, Part, Result

SHARES, LABELS = np.array([0.0, 0.4, 1.0]), np.array([0, 1] * 100, np.int8)
RECIPE = {"learning_rate": 2e-5}


def part(seed, weights, texts=200, labels=LABELS, **recipe):
    """One training whose steps get 90%, 80% and 50% of the answers right, drawn at random."""
    rng = np.random.default_rng(seed)
    correct = rng.random((1, 3, 200)) < np.array([0.9, 0.8, 0.5])[:, None]
    raw = {"shares": SHARES, "labels": labels[:texts], "correct": correct[..., :texts]}
    recipe = {f"seed {seed}": {**RECIPE, "seed": seed, **recipe}}
    signature = {"own": {"n_scoring": 9}, "recipe": recipe}
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


@pytest.mark.parametrize("held", [False, True])
def test_only_the_new_pairs_of_a_task_count(curve, tmp_path, held):
    if held:
        path = Key("pruning_curve", "snli-held", "minilm").path(tmp_path)
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (row,) = [row for row in rows_of(curve, tmp_path) if row.claim == "C3"]
    assert (row.why_not == "the new pairs of the task count") is held


def test_counts_of_100_berts_are_of_the_same_texts_in_the_same_order(monkeypatch):
    curve = store.load(Key("pruning_curve", "mnli", "minilm"))
    counted = questions.right_of_100_berts()
    assert [group.n for group in questions.strata(curve, None)] == [9815, 7563, 9815 - 7563]
    monkeypatch.setattr(questions, "right_of_100_berts", lambda: {**counted, "sha256": "another"})
    assert questions.strata(curve, None) == []


def test_the_best_heads_of_two_trainings_count_as_one_and_of_three_together():
    """What three say together, and single heads and other domains, the goldens have."""
    stored = store.load(Key("best_heads", "reviews", "minilm"))
    two = {**stored.values, "further": {"training 2": stored.values["further"]["training 2"]}}
    (alone,), (together,) = rows_of(replace(stored, values=two)), rows_of(stored)
    assert (alone.judged.trainings, together.judged.trainings) == (1, 3)
