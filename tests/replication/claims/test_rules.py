"""Every rule comes out each way on made-up results, at and beside its bounds; so does its power."""

import numpy as np
import pytest

from headprune_lib.replication.claims import rules

UP, DOWN, AROUND, TOUCHING = (0.1, 0.3), (-0.3, -0.1), (-0.1, 0.2), (0.0, 0.2)


def sweep(heads, removable, needed=0, low=0.75, changing=0):
    counts = {"heads": heads, "removable": removable, "paper_losses": changing, "paper_gains": 0}
    share = {"needed": needed, "removable_interval": [low, 1.0], "power": 0.9, "detectable": 0.01}
    return rules.one_at_a_time(counts, share, "encoder")


@pytest.mark.parametrize(
    ("judged", "word", "met"),
    [
        (sweep(72, 66), "replicates", True),
        (sweep(10, 8, low=0.7, changing=2), "replicates", True),  # 80% is enough, so is a fifth
        (sweep(100, 79, changing=21), "undecided", False),
        (sweep(10, 8, low=0.69), "undecided", True),  # the interval reaches below 70%
        (sweep(10, 5, needed=3), "differs", True),
        (sweep(10, 5, needed=2), "undecided", True),  # more than 20% needed, not 20%
    ],
)
def test_c1(judged, word, met):
    assert (judged.word, judged.met) == (word, met)


YES, NO, OPEN = [-0.009, 0.01], [-0.05, -0.011], [-0.02, 0.0]


def layers(*intervals, losing=0.0, **more):
    names = {"kind": "self", "losing": losing, "losing_paired": losing, **more}
    return [{"layer": i, "interval": ends, **names} for i, ends in enumerate(intervals)]


@pytest.mark.parametrize(
    ("half", "intervals", "word"),
    [
        ("encoder", (YES, YES, YES, YES, NO), "replicates"),
        ("encoder", (YES, YES, YES, OPEN, NO), "undecided"),
        ("encoder", (YES, YES, YES, NO, NO), "differs"),
        ("encoder", (YES, YES, OPEN, OPEN, NO), "undecided"),  # more than 20%, not 20%
        ("encoder", (YES, YES, YES, OPEN, [-0.01, 0]), "undecided"),  # touched is not passed
        ("translation", [[-0.4, 0.3]] * 2 + [[-2, -0.6]] * 3, "replicates"),
        ("translation", [[-0.4, 0.3]] + [[-2, -0.6]] * 3 + [[-0.9, 0.2]], "undecided"),
        ("translation", [[-0.4, 0.3]] + [[-2, -0.6]] * 4, "differs"),
    ],
)
def test_c2(half, intervals, word):
    assert rules.one_head_a_layer(layers(*intervals), half).word == word


@pytest.mark.parametrize(
    ("half", "losing", "met"),
    [("encoder", 0, True), ("encoder", 1, False), ("translation", 3, True)],
)
def test_c2_by_the_papers_criterion(half, losing, met):
    found = layers(*[OPEN] * (6 - losing)) + layers(*[OPEN] * losing, losing=1.0)
    assert rules.one_head_a_layer(found, half).met is met
    two_of_three = layers(*[OPEN] * 6, losing=2 / 3)  # four of six, in the mean over trainings
    assert rules.one_head_a_layer(two_of_three, half).met is False


def test_c2_has_its_power_where_layers_lose_what_the_papers_do(drawn_seed):
    changes = np.array(rules.paper_changes("encoder"))
    assert len(changes) == 12 and changes.min() == -0.0096
    found = np.random.default_rng(drawn_seed).normal(changes, 0.002, (20_000, 12))
    enough = (found - 1.96 * 0.002 > -0.01).sum(1) >= 0.8 * 12
    ends = [-1.96 * 0.002, 1.96 * 0.002]
    power = rules.one_head_a_layer(layers(*[ends] * 12), "encoder").power
    assert power == pytest.approx(enough.mean(), abs=0.03) and 0.3 < power < 0.7
    t = layers(*[ends] * 12, error=0.002, freedom=2.0)
    assert rules.one_head_a_layer(t, "encoder").power < 0.05
    assert rules.one_head_a_layer(layers(*[[-0.5, 0.5]] * 18), "translation").power < 0.5


@pytest.mark.parametrize(
    ("ends", "raw", "word", "met"),
    [
        ((0.95, 1.0), 0.99, "replicates", True),
        ((0.94, 1.0), 0.95, "undecided", True),
        ((0.90, 0.95), 0.94, "undecided", False),
        ((0.80, 0.94), 0.96, "differs", True),  # the paper's curve has chance in it
    ],
)
def test_c3(ends, raw, word, met):
    found = {"share": 0.4, "kept": sum(ends) / 2, "interval": ends, "raw": raw, "trainings": 3}
    judged = rules.together(found)
    assert (judged.word, judged.met, judged.trainings) == (word, met, 3)


def test_c3_has_less_power_where_bert_itself_loses_something_and_of_few_trainings():
    found = {"share": 0.4, "kept": 1.0, "interval": [0.97, 1.03], "raw": 1.0}
    powers = [
        rules.together(found).power,
        rules.together(found, 0.969).power,
        rules.together({**found, "error": 0.0153, "freedom": 2.0}).power,
    ]
    assert powers[0] > 0.8 > max(powers[1:]) and min(powers) > 0.1


LEFT = {"enc-enc": 0.9, "enc-dec": 0.2, "dec-dec": 0.85}


def difference(ends, **more):
    return {"difference": sum(ends) / 2, "interval": list(ends), **more}


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [
        (DOWN, DOWN, "replicates"),
        (DOWN, UP, "differs"),
        (UP, AROUND, "differs"),
        (DOWN, AROUND, "undecided"),
        (DOWN, TOUCHING, "undecided"),
    ],
)
def test_c4(first, second, word):
    for pair in ((first, second), (second, first)):
        areas = dict(zip(("enc-enc", "dec-dec"), map(difference, pair), strict=True))
        assert rules.kinds(areas, LEFT).word == word


@pytest.mark.parametrize(("kind", "kept"), [("enc-dec", 0.5), ("dec-dec", 0.82), ("enc-enc", 0.8)])
def test_c4_by_the_papers_criterion(kind, kept):
    areas = {"enc-enc": difference(DOWN), "dec-dec": difference(DOWN)}
    assert rules.kinds(areas, LEFT).met and not rules.kinds(areas, {**LEFT, kind: kept}).met


def test_c4_has_power_for_the_papers_difference():
    def power(half, **more):
        ends = difference((-0.2 - half, -0.2 + half), **more)
        return rules.kinds({"enc-enc": ends, "dec-dec": ends}, LEFT).power

    assert power(0.1) > 0.95 and power(0.4) < 0.8 and power(0.1, error=0.05, freedom=1.5) < 0.8


@pytest.mark.parametrize(
    ("ends", "word"),
    [(UP, "replicates"), (DOWN, "differs"), (AROUND, "undecided"), (TOUCHING, "undecided")],
)
def test_c8(ends, word):
    assert rules.orders(difference(ends), None, "encoder").word == word


@pytest.mark.parametrize(
    ("above", "met"), [([True] * 5 + [False] * 4, True), ([True, False], False), (None, None)]
)
def test_c8_by_the_papers_criterion(above, met):
    assert rules.orders(difference(UP), above, "encoder").met is met


def along(importance=UP, random=DOWN, trainings=3, early=0.6, late=0.9, error=0.01):
    """Made-up values of Figure 5; the paper's rise is .275 over three e-folds."""

    def slope(ends):
        interval = list(ends) if trainings >= 3 else None
        return {**difference(ends), "interval": interval, "error": error, "freedom": 4.0}

    bleu = (0.2, 9.0), (4.0, early), (15.0, 0.1), (23.0, late), (25.0, late)
    checkpoints = [{"bleu": [score, 1.0], "kept": [1.0, kept]} for score, kept in bleu]
    return {
        "shares": [0.0, 0.4],
        "removed": 0.4,
        "log_range": 3.0,
        "trainings": [{"checkpoints": checkpoints}] * trainings,
        "slopes": {"importance": slope(importance), "random": slope(random)},
    }


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({}, "not run"),
        (along(), "replicates"),
        (along(importance=(-0.01, 0.02)), "mixed"),  # no rise, and not the paper's 0.09
        (along(importance=(-0.01, 0.02), random=UP), "differs"),
        (along(importance=AROUND), "undecided"),  # holds no rise, and the paper's
        (along(random=AROUND), "undecided"),
        (along(random=UP), "mixed"),
        (along(trainings=2), "undecided"),
    ],
)
def test_c5(values, word):
    assert rules.apart(values).word == word


@pytest.mark.parametrize(
    ("early", "late", "met"),
    [(0.6, 0.9, True), (0.8, 0.9, False), (0.6, 0.84, False), (0.72, 0.85, True)],
)
def test_c5_by_the_papers_criterion(early, late, met):
    """A checkpoint of 0.2 BLEU, which keeps nine times as much, is neither early nor late."""
    assert rules.apart(along(early=early, late=late)).met is met


def test_c5_has_power_where_trainings_agree_and_are_three_with_random_orders():
    assert rules.apart(along()).power > 0.8 > rules.apart(along(error=0.05)).power
    assert rules.apart(along(trainings=2)).power == 0.0
    alone = rules.apart({**along(), "slopes": None})
    assert (alone.word, alone.power, alone.met) == ("undecided", 0.0, True)
    untranslated = rules.apart({**along(), "slopes": {"loss": {}}})
    assert (untranslated.word, untranslated.power) == ("undecided", 0.0)
    assert "at least 5 BLEU" in untranslated.smallest


FAST, SLOW, UNSURE = (1.2, 1.15, 1.25), (1.02, 1.0, 1.04), (1.12, 0.99, 1.3)


def speed(*ratios):
    return {
        size: {"ratio": ratio, "interval": [low, high]}
        for size, (ratio, low, high) in zip((1, 4, 16, 64), ratios, strict=False)
    }


@pytest.mark.parametrize(
    ("ratios", "word", "met"),
    [
        (speed(SLOW, SLOW, FAST), "not run", None),  # no batch 64
        (speed(SLOW, SLOW, FAST, FAST), "replicates", True),
        (speed(SLOW, SLOW, UNSURE, FAST), "undecided", True),
        (speed(SLOW, SLOW, (1.10, 1.05, 1.15), FAST), "undecided", False),  # above 1.10, not 1.10
        (speed(SLOW, SLOW, FAST, SLOW), "differs", False),
        (speed(SLOW, FAST, FAST, FAST), "differs", False),  # one statement: not at small batches
        (speed((1.02, 0.9, 1.2), SLOW, FAST, FAST), "undecided", True),
    ],
)
def test_c6(ratios, word, met):
    judged = rules.faster(ratios)
    assert (judged.word, judged.met) == (word, met)


def test_c6_has_power_where_timings_agree():
    assert rules.faster(speed(SLOW, SLOW, FAST, FAST)).power > 0.8
    for noisy in ((SLOW, SLOW, (1.2, 0.9, 1.6), FAST), (SLOW, (1.02, 0.9, 1.2), FAST, FAST)):
        assert rules.faster(speed(*noisy)).power < 0.8


def across(ends, left_out=(0.2, 0.5), reliability=(0.9, 0.8), r=0.7, p=0.001, heads=72):
    spearman = {"r": None if ends is None else sum(ends) / 2, "interval": ends}
    within = {"r": 0.1, "interval": [-0.1, 0.3]}
    loss = {"spearman": spearman, "within": within, "left_out": left_out}
    pearson = {"pearson": {"r": r, "p": p}}
    return rules.across({**loss, "reliability": reliability}, pearson, heads, "encoder")


@pytest.mark.parametrize(
    ("judged", "word", "met"),
    [
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
)
def test_c7(judged, word, met):
    assert (judged.word, judged.met) == (word, met)


def test_c7_has_no_power_where_effects_are_noise():
    assert across(UP).power > 0.99 and across(UP, heads=6).power < 0.8
    assert across(UP, reliability=(0.49, 0.9)).power == 0.0


def test_a_model_at_chance_has_nothing_to_keep():
    nothing = {"difference": None, "interval": [None, None]}
    judged = [
        rules.together({"share": 0.4, "kept": None, "interval": [None, None], "raw": 0.9}),
        rules.kinds({"enc-enc": nothing, "dec-dec": difference(DOWN)}, LEFT),
        rules.orders(nothing, [True], "encoder"),
    ]
    assert all((one.word, one.power) == ("undecided", 0.0) for one in judged)
