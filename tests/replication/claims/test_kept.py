"""What trainings keep, with intervals over them, on made-up outcomes."""

import numpy as np
import pytest
import scipy.stats

from headprune_lib.replication import store
from headprune_lib.replication.claims import kept, questions
from headprune_lib.replication.claims.evidence import rows_of
from headprune_lib.replication.measurements import MEASUREMENTS
from headprune_lib.replication.store import OUTCOMES, Key, Part, Result

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


def result(measurement, parts, values=None):
    about = ("snli", "minilm", "default", "snli/test", 200, "accuracy", "share")
    return Result(measurement, *about, values or {"curves": {}}, "", parts)


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
    pooled = kept.pooled(curve, tmp_path)
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
    curve, counted = (
        store.load(Key("pruning_curve", "mnli", "minilm")),
        questions.right_of_100_berts(),
    )
    assert [group.n for group in questions.strata(curve, None)] == [9815, 7563, 9815 - 7563]
    monkeypatch.setattr(questions, "right_of_100_berts", lambda: {**counted, "sha256": "another"})
    assert questions.strata(curve, None) == []


def outcomes(seed):
    """Of the best heads of two layers: a few answers change, and the second one costs a share."""
    rng = np.random.default_rng(seed)
    uncut = rng.random(2_000) < 0.9
    changed = rng.random((2, 2_000)) < 0.001
    changed[1] = uncut & (rng.random(2_000) < 0.01 * seed)
    return {
        "heads": np.array([(0, 0), (1, 1)]),
        "correct_uncut": uncut,
        "correct": uncut ^ changed,
        "loss_uncut": np.full(2_000, 300),
        "loss_change": np.zeros((2, 2_000), np.int16),
        "truncated": np.array(0),
        "train_correct": np.ones((2, 9), bool),
    }


def judged(raws):
    names = [OUTCOMES, *(f"training {seed}" for seed in range(2, len(raws) + 1))]
    stored = dict(zip(names, raws, strict=True))
    best = MEASUREMENTS["best_heads"]
    values = best.summarise("encoder", stored, {}, best.statistics["encoder"])
    parts = {name: Part({}, [{}], {"date": "2026-12"}, raw) for name, raw in stored.items()}
    (row,) = rows_of(result("best_heads", parts, values))
    return row.judged


def test_the_best_heads_of_three_trainings_count_together():
    """From outcomes to an interval; of single heads and other domains the goldens say it."""
    raws = [outcomes(seed) for seed in (1, 2, 3)]
    assert judged(raws[:2]).trainings == 1  # a mean of two tells little
    found = judged(raws)
    assert found.trainings == 3
    changes = np.array([raw["correct"].mean(-1) - raw["correct_uncut"].mean() for raw in raws])
    # of the second layer, whose losses of 1, 2 and 3 points differ more than texts make them
    error = changes[:, 1].std(ddof=1) / 3**0.5
    low = changes[:, 1].mean() - scipy.stats.t.isf(0.025, 2) * error
    assert low < -0.01 < changes[:, 1].mean() + scipy.stats.t.isf(0.025, 2) * error
    assert found.measured.startswith("One head is enough in 1 of 2 layers; open for layer 2.")
