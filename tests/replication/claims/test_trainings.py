"""Three trainings of a classifier with their heads removed one at a time count together."""

import numpy as np
import pytest
import scipy.stats

from headprune_lib.replication.claims.evidence import rows_of
from headprune_lib.replication.measurements import MEASUREMENTS
from headprune_lib.replication.store import OUTCOMES, Part, Result

LAYERS, HEADS, TEXTS = 2, 3, 2_000
CUTS = np.array([(layer, head) for layer in range(LAYERS) for head in range(HEADS)])


def outcomes(seed, cuts=CUTS, costly=0.0):
    """Of each cut a few answers change; the last one costs a share of them."""
    rng = np.random.default_rng(seed)
    uncut = rng.random(TEXTS) < 0.9
    changed = rng.random((len(cuts), TEXTS)) < 0.001
    changed[-1] = uncut & (rng.random(TEXTS) < costly)
    loss = rng.normal(0, 5, (len(cuts), TEXTS)) + 40 * np.arange(len(cuts))[:, None]
    return {
        "heads": cuts,
        "correct_uncut": uncut,
        "correct": uncut ^ changed,
        "loss_uncut": np.full(TEXTS, 300),
        "loss_change": loss.astype(np.int16),
        "truncated": np.array(0),
    }


def judged(name, raws):
    names = [OUTCOMES, *(f"training {seed}" for seed in range(2, len(raws) + 1))]
    parts = dict(zip(names, raws, strict=True))
    measurement = MEASUREMENTS[name]
    values = measurement.summarise("encoder", parts, {}, measurement.statistics["encoder"])
    stored = {part: Part({}, [{}], {"date": "2026-12"}, raw) for part, raw in parts.items()}
    about = ("snli", "minilm", "default", "snli/test", TEXTS, "accuracy", "share")
    (row,) = rows_of(Result(name, *about, values, "", stored))
    return row.judged


def test_heads_one_at_a_time():
    raws = [outcomes(seed, costly=0.05 if seed == 3 else 0) for seed in (1, 2, 3)]
    assert judged("one_head", raws[:2]).trainings == 1  # a mean of two tells little
    found = judged("one_head", raws)
    assert found.trainings == 3
    assert found.measured.startswith("5.67 of 6 heads (94% [")
    assert ", 0.333 needed;" in found.measured
    assert found.measured.endswith("in the mean over 3 trainings.")


def test_the_best_head_of_each_layer():
    best = CUTS[[0, 4]]
    raws = [
        {**outcomes(seed, best, costly=0.01 * seed), "train_correct": np.ones((2, 9), bool)}
        for seed in (1, 2, 3)
    ]
    found = judged("best_heads", raws)
    assert found.trainings == 3
    changes = np.array([raw["correct"].mean(-1) - raw["correct_uncut"].mean() for raw in raws])
    # of the second layer, whose losses of 1, 2 and 3 points differ more than texts make them
    error = changes[:, 1].std(ddof=1) / 3**0.5
    low = changes[:, 1].mean() - scipy.stats.t.isf(0.025, 2) * error
    assert low < -0.01 < changes[:, 1].mean() + scipy.stats.t.isf(0.025, 2) * error
    assert found.measured.startswith("One head is enough in 1 of 2 layers; open for layer 2.")


def test_the_same_heads_on_another_domain():
    def raw(seed):
        both = {"reviews": outcomes(seed), "tweets": outcomes(seed + 10)}
        pair = {f"{name}/{what}": each for name, raw in both.items() for what, each in raw.items()}
        return {**pair, "domains": np.array(["reviews", "tweets"])}

    found = judged("across_domains", [raw(seed) for seed in (1, 2, 3)])
    assert found.trainings == 3
    assert found.word == "replicates"
    assert found.estimates[0].value == pytest.approx(1, abs=1e-3)
