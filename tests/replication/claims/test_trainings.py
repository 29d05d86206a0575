"""Three trainings of a classifier count together, from outcomes to an interval.

That those of the stored results do, heads one at a time and on other domains too, the goldens say.
"""

import numpy as np
import scipy.stats

from headprune_lib.replication.claims.evidence import rows_of
from headprune_lib.replication.measurements import MEASUREMENTS
from headprune_lib.replication.store import OUTCOMES, Part, Result

TEXTS = 2_000


def outcomes(seed):
    """Of the best heads of two layers: a few answers change, and the second one costs a share."""
    rng = np.random.default_rng(seed)
    uncut = rng.random(TEXTS) < 0.9
    changed = rng.random((2, TEXTS)) < 0.001
    changed[1] = uncut & (rng.random(TEXTS) < 0.01 * seed)
    return {
        "heads": np.array([(0, 0), (1, 1)]),
        "correct_uncut": uncut,
        "correct": uncut ^ changed,
        "loss_uncut": np.full(TEXTS, 300),
        "loss_change": np.zeros((2, TEXTS), np.int16),
        "truncated": np.array(0),
        "train_correct": np.ones((2, 9), bool),
    }


def judged(raws):
    names = [OUTCOMES, *(f"training {seed}" for seed in range(2, len(raws) + 1))]
    parts = dict(zip(names, raws, strict=True))
    measurement = MEASUREMENTS["best_heads"]
    values = measurement.summarise("encoder", parts, {}, measurement.statistics["encoder"])
    stored = {part: Part({}, [{}], {"date": "2026-12"}, raw) for part, raw in parts.items()}
    about = ("snli", "minilm", "default", "snli/test", TEXTS, "accuracy", "share")
    (row,) = rows_of(Result("best_heads", *about, values, "", stored))
    return row.judged


def test_the_best_head_of_each_layer():
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
