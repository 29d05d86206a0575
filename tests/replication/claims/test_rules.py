"""Every rule comes out each way on made-up results, at and beside its bounds; so does its power."""

import numpy as np
import pytest

from headprune_lib.replication.claims import rules

UP, DOWN, AROUND, TOUCHING = (0.1, 0.3), (-0.3, -0.1), (-0.1, 0.2), (0.0, 0.2)


def sweep(heads, *removable, needed=0, low=0.75, changing=0):
    """C1 of so many heads, in a training for each number of removable ones."""
    share = {"needed": needed, "removable_interval": [low, 1.0], "detectable": 0.01}
    counts = {"heads": heads, "paper_losses": changing, "paper_gains": 0}
    trainings = [
        {**share, **counts, "removable": n, "power": 0.7 + i / 10} for i, n in enumerate(removable)
    ]
    return rules.one_at_a_time(trainings, "encoder")


def test_several_trainings_count_by_their_mean():
    judged = sweep(100, 96, 92, 94, low=0.8, changing=2)
    assert (judged.word, judged.trainings) == ("replicates", 3)
    assert judged.power == pytest.approx(0.8)
    assert judged.measured.startswith("94 of 100 heads (94% [") and "2 change" in judged.measured
    # .1 / 1.96 of the texts and a standard deviation of .02 over trainings: wide by few trainings
    (low, high) = judged.estimates[0].interval
    assert (0.94 - low) > (high - 0.94)  # a share ends at 1
    assert 0.94 - low == pytest.approx(0.1035, abs=2e-3)
    assert sweep(100, 100, 60, low=0.8).word == "undecided"  # two trainings that differ as much
    assert sweep(100, 50, 52, low=0.8, needed=30).word == "differs"


YES, NO, OPEN = [-0.009, 0.01], [-0.05, -0.011], [-0.02, 0.0]
FINE, LOST = [-0.4, 0.3], [-2, -0.6]


def layers(*intervals, half="encoder", losing=(), **more):
    """C2 of layers with these intervals, and with the share of trainings in which each loses."""
    losing = [*losing, *[0.0] * (len(intervals) - len(losing))]
    records = [
        {
            "kind": "self",
            "layer": i,
            "delta": np.mean(ends),
            "interval": ends,
            "losing": p,
            "losing_paired": p,
            **more,
        }
        for i, (ends, p) in enumerate(zip(intervals, losing, strict=True))
    ]
    return rules.one_head_a_layer(records, half)


def kept(ends, raw=1.0, true=1.0, **more):
    """C3 of what is kept with 40% removed."""
    found = {"share": 0.4, "kept": sum(ends) / 2, "interval": ends, "raw": raw, **more}
    return rules.together(found, true)


def difference(ends, **more):
    return {"difference": sum(ends) / 2, "interval": list(ends), **more}


def kinds(first, second, other="enc-enc", left=(), **more):
    """C4 of two differences, the first from one other kind and the second from the other."""
    names = (other, "dec-dec" if other == "enc-enc" else "enc-enc")
    areas = {
        name: difference(ends, **more) for name, ends in zip(names, (first, second), strict=True)
    }
    return rules.kinds(areas, {"enc-enc": 0.9, "enc-dec": 0.2, "dec-dec": 0.85} | dict(left))


def apart(importance=UP, random=DOWN, trainings=3, early=0.6, late=0.9, error=0.01, **other):
    """C5 of made-up values of Figure 5; the paper's rise is .275 over three e-folds.

    A checkpoint of 0.2 BLEU, which keeps nine times as much, is neither early nor late.
    """

    def slope(ends):
        interval = list(ends) if trainings >= 3 else None
        return {**difference(ends), "interval": interval, "error": error, "freedom": 4.0}

    bleu = (0.2, 9.0), (4.0, early), (15.0, 0.1), (23.0, late), (25.0, late)
    checkpoints = [{"bleu": [score, 1.0], "kept": [1.0, kept]} for score, kept in bleu]
    values = {
        "shares": [0.0, 0.4],
        "removed": 0.4,
        "log_range": 3.0,
        "trainings": [{"checkpoints": checkpoints}] * trainings,
        "slopes": {"importance": slope(importance), "random": slope(random)},
    }
    return rules.apart(values | other)


FAST, SLOW, UNSURE = (1.2, 1.15, 1.25), (1.02, 1.0, 1.04), (1.12, 0.99, 1.3)


def faster(*ratios):
    """C6 at batches of 1, 4, 16 and 64: ratio, low and high end."""
    rows = zip((1, 4, 16, 64), ratios, strict=False)
    return rules.faster({size: {"ratio": row[0], "interval": row[1:]} for size, row in rows})


def agreement(ends, left_out=(0.2, 0.5), reliability=(0.9, 0.8), r=0.7, p=0.001):
    """Of a correlation in log-loss, and Pearson's r and p in the score."""
    spearman = {"r": None if ends is None else sum(ends) / 2, "interval": ends}
    within = {"r": 0.1, "interval": [-0.1, 0.3]}
    loss = {"spearman": spearman, "within": within, "left_out": left_out}
    pearson = {"r": r, "p": p, "interval": r and [r - 0.2, r + 0.2]}
    return {"loss": {**loss, "reliability": reliability}, "accuracy": {"pearson": pearson}}


def across(ends, heads=72, **more):
    """C7 of one training."""
    return rules.across([agreement(ends, **more)], heads, "encoder")


def test_correlations_of_several_trainings_count_by_their_mean():
    first, second = (0.33, 0.67), (0.45, 0.75)

    def judged(*trainings):
        return rules.across([agreement(*one) for one in trainings], 72, "encoder")

    pair = judged((first,), (second, (0.5, 0.6), (0.9, 0.8), -0.1))
    assert (pair.word, pair.trainings, pair.met) == ("replicates", 2, False)  # in one of two
    assert [estimate.value for estimate in pair.as_the_paper] == [0.7, -0.1]
    (estimate, *_) = pair.estimates
    assert estimate.value == pytest.approx(np.tanh(np.arctanh([0.5, 0.6]).mean()))
    (alike, *_) = judged((first,), (first,)).estimates
    assert np.ptp(estimate.interval) > np.ptp(alike.interval)  # trainings differ too
    assert judged((first,), (second, (-0.1, 0.6))).word == "undecided"  # one head makes it
    reversed_ = ((ends, (0.2, 0.5), (0.9, 0.8), -0.6) for ends in (first, second))
    assert judged(*reversed_).word == "differs"
    several = [agreement(first), agreement(second)]
    assert "within layers 0.10 [" in rules.across(several, 72, "encoder").measured
    several[1]["loss"]["within"] = {"r": None, "interval": [None, None]}
    assert "within layers it is not defined" in rules.across(several, 72, "encoder").measured
    perfect = judged(((1.0, 1.0),), ((1.0, 1.0),))
    assert perfect.estimates[0].value == pytest.approx(1)


def orders(ends, above=None, **more):
    """C8 of a difference of areas."""
    return rules.orders(difference(ends, **more), above, "encoder")


JUDGED = {
    "c1": [
        (sweep(72, 66), "replicates", True),
        (sweep(10, 8, low=0.7, changing=2), "replicates", True),  # 80% is enough, so is a fifth
        (sweep(100, 79, changing=21), "undecided", False),
        (sweep(10, 8, low=0.69), "undecided", True),  # the interval reaches below 70%
        (sweep(10, 5, needed=3), "differs", True),
        (sweep(10, 5, needed=2), "undecided", True),  # more than 20% needed, not 20%
    ],
    "c2": [
        (layers(YES, YES, YES, YES, NO), "replicates", True),
        (layers(YES, YES, YES, OPEN, NO), "undecided", True),
        (layers(YES, YES, YES, NO, NO), "differs", True),
        (layers(YES, YES, OPEN, OPEN, NO), "undecided", True),  # more than 20%, not 20%
        (layers(YES, YES, YES, OPEN, [-0.01, 0]), "undecided", True),  # touched is not passed
        (layers(FINE, FINE, LOST, LOST, LOST, half="translation"), "replicates", True),
        (layers(FINE, LOST, LOST, LOST, [-0.9, 0.2], half="translation"), "undecided", True),
        (layers(FINE, LOST, LOST, LOST, LOST, half="translation"), "differs", True),
        # by the paper's test no layer of an encoder may lose, of a translator half of them
        (layers(*[OPEN] * 6, losing=[1.0]), "undecided", False),
        (layers(*[OPEN] * 6, losing=[2 / 3] * 6), "undecided", False),
        (layers(*[LOST] * 6, losing=[1.0] * 3, half="translation"), "differs", True),
        (layers(*[LOST] * 6, losing=[2 / 3] * 6, half="translation"), "differs", False),
    ],
    "c3": [
        (kept((0.95, 1.0), 0.99), "replicates", True),
        (kept((0.94, 1.0), 0.95), "undecided", True),
        (kept((0.90, 0.95), 0.94), "undecided", False),
        (kept((0.80, 0.94), 0.96), "differs", True),  # the paper's curve has chance in it
        (rules.together(None), "not run", None),
    ],
    "c4": [
        (kinds(*pair, other), word, True)
        for *pair, word in (
            (DOWN, DOWN, "replicates"),
            (DOWN, UP, "differs"),
            (UP, AROUND, "differs"),
            (DOWN, AROUND, "undecided"),
            (DOWN, TOUCHING, "undecided"),
        )
        for other in ("enc-enc", "dec-dec")
    ]
    + [
        (kinds(DOWN, DOWN, left=[left]), "replicates", False)
        for left in (("enc-dec", 0.5), ("dec-dec", 0.82), ("enc-enc", 0.8))
    ],
    "c5": [
        (rules.apart({}), "not run", None),
        (apart(), "replicates", True),
        (apart(importance=(-0.01, 0.02)), "mixed", True),  # no rise, and not the paper's 0.09
        (apart(importance=(-0.01, 0.02), random=UP), "differs", True),
        (apart(importance=AROUND), "undecided", True),  # holds no rise, and the paper's
        (apart(random=AROUND), "undecided", True),
        (apart(random=UP), "mixed", True),
        (apart(trainings=2), "undecided", True),
        (apart(slopes=None), "undecided", True),
        (apart(slopes={"loss": {}}), "undecided", True),
        (apart(early=0.8), "replicates", False),
        (apart(late=0.84), "replicates", False),
        (apart(early=0.72, late=0.85), "replicates", True),
    ],
    "c6": [
        (faster(SLOW, SLOW, FAST), "not run", None),  # no batch 64
        (faster(SLOW, SLOW, FAST, FAST), "replicates", True),
        (faster(SLOW, SLOW, UNSURE, FAST), "undecided", True),
        (faster(SLOW, SLOW, (1.10, 1.05, 1.15), FAST), "undecided", False),  # above 1.10, not 1.10
        (faster(SLOW, SLOW, FAST, SLOW), "differs", False),
        (faster(SLOW, FAST, FAST, FAST), "differs", False),  # one statement: not at small batches
        (faster((1.02, 0.9, 1.2), SLOW, FAST, FAST), "undecided", True),
    ],
    "c7": [
        (across(UP), "replicates", True),
        (across(UP, r=0.7, p=0.02), "replicates", False),
        (across(UP, r=None, p=None), "replicates", None),
        (across(UP, left_out=(-0.1, 0.4)), "undecided", True),  # one head makes it
        (across(DOWN, left_out=(-0.4, -0.1)), "differs", True),
        (across(DOWN, left_out=(-0.4, 0.1)), "undecided", True),
        (across(AROUND), "undecided", True),
        (across(AROUND, r=-0.4, p=0.001), "differs", False),  # reversed in the score
        (across(UP, r=-0.4, p=0.001), "differs", False),
        (across(AROUND, r=-0.4, p=0.02), "undecided", False),
        (across(UP, reliability=(0.49, 0.9), r=-0.4), "undecided", False),
        (across(None), "not run", None),
    ],
    "c8": [
        (orders(UP), "replicates", None),
        (orders(DOWN), "differs", None),
        (orders(AROUND), "undecided", None),
        (orders(TOUCHING), "undecided", None),
        (orders(UP, [True] * 5 + [False] * 4), "replicates", True),
        (orders(UP, [True, False]), "replicates", False),
    ],
}


@pytest.mark.parametrize("claim", JUDGED)
def test_words_and_the_papers_criterion(claim):
    for i, (judged, word, met) in enumerate(JUDGED[claim]):
        assert (judged.word, judged.met) == (word, met), (i, judged.measured)


SAME, T = (-0.00392, 0.00392), {"error": 0.002, "freedom": 2.0}


def test_c2_has_its_power_where_layers_lose_what_the_papers_do(drawn_seed):
    changes = np.array(rules.paper_changes("encoder"))
    assert len(changes) == 12 and changes.min() == -0.0096
    found = np.random.default_rng(drawn_seed).normal(changes, 0.002, (20_000, 12))
    enough = (found - 1.96 * 0.002 > -0.01).sum(1) >= 0.8 * 12
    power = layers(*[SAME] * 12).power
    assert power == pytest.approx(enough.mean(), abs=0.03) and 0.3 < power < 0.7
    assert layers(*[SAME] * 12, **T).power < 0.05
    assert layers(*[[-0.5, 0.5]] * 18, half="translation").power < 0.5


def test_a_result_says_how_many_trainings_it_rests_on_and_what_it_lacks():
    assert kept((0.95, 1.0), trainings=3).trainings == apart().trainings == 3
    assert "at least 5 BLEU" in apart(slopes={"loss": {}}).smallest


def test_a_model_at_chance_has_nothing_to_keep():
    nothing = {"difference": None, "interval": [None, None]}
    left = dict.fromkeys(("enc-enc", "enc-dec", "dec-dec"), 0.9)
    judged = [
        rules.together({"share": 0.4, "kept": None, "interval": [None, None], "raw": 0.9}),
        rules.kinds({"enc-enc": nothing, "dec-dec": difference(DOWN)}, left),
        rules.orders(nothing, [True], "encoder"),
    ]
    assert all((one.word, one.power) == ("undecided", 0.0) for one in judged)


def test_a_share_kept_whose_interval_has_no_width_decides_nothing():
    record = {"share": 0.4, "kept": 1.0, "interval": [1.0, 1.0], "raw": 1.0}
    judged = rules.together(record)
    assert (judged.word, judged.power, judged.met) == ("undecided", 0.0, True)
    assert rules.together({**record, "interval": [0.99, 1.01]}).word == "replicates"
