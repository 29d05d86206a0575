"""The contrasts on made-up results come out each way."""

import pytest
import scipy.stats

from headprune_lib.replication.claims.contrasts import CONDITION, FAMILY, decide, nearest_to_chance

COMBINED = FAMILY[0]


def values(**areas):
    """Values of a task: contrast -> (value, error), by the first word of its name."""
    names = {name.partition(" ")[0]: name for name in FAMILY}
    names["control"] = CONDITION[COMBINED]
    return {
        "least_above_chance": 0.2,
        "contrasts": {
            names[short]: {
                what: {"value": value, "interval": [0, 0], "error": error}
                for what in ("area", "loss")
            }
            for short, (value, error) in areas.items()
        },
    }


def word(name, found):
    return next(one.word for one in decide(found) if one.name == name)


def test_a_large_difference_is_better_or_worse():
    assert word(FAMILY[1], {"sst2": values(entropy=(0.1, 0.02))}) == "better"
    assert word(FAMILY[1], {"sst2": values(entropy=(-0.1, 0.02))}) == "worse"
    assert word(FAMILY[1], {"sst2": values(entropy=(0.03, 0.02))}) == "no difference shown"
    assert word(FAMILY[2], {"sst2": values(entropy=(0.1, 0.02))}) == "not run"
    assert [one.word for one in decide({})] == ["not run"] * 4


@pytest.mark.parametrize(
    ("control", "expected"),
    [
        ((0.05, 0.01), "better"),
        ((0.01, 0.01), "no difference shown"),
        (None, "no difference shown"),
    ],
)
def test_the_combined_order_must_beat_its_control_too(control, expected):
    own = {"combined": (0.1, 0.02)} | ({"control": control} if control else {})
    assert word(COMBINED, {"sst2": values(**own)}) == expected
    worse = {"combined": (-0.1, 0.02)} | ({"control": control} if control else {})
    assert word(COMBINED, {"sst2": values(**worse)}) == "worse"


def test_tasks_are_pooled_as_independent_and_p_is_corrected():
    found = {
        "sst2": values(entropy=(0.1, 0.03), scored=(0.02, 0.009), combined=(0.0, 0.1)),
        "cola": values(entropy=(0.3, 0.04), scored=(0.02, 0.009)),
    }
    by_name = {one.name: one for one in decide(found)}
    entropy, scored = by_name[FAMILY[1]], by_name[FAMILY[2]]
    assert entropy.value == pytest.approx(0.2) and entropy.tasks == ("sst2", "cola")
    error = (0.03**2 + 0.04**2) ** 0.5 / 2
    assert entropy.interval == pytest.approx((0.2 - 1.96 * error, 0.2 + 1.96 * error), abs=1e-4)
    assert entropy.p == pytest.approx(2 * scipy.stats.norm.sf(0.2 / error))
    assert by_name[COMBINED].tasks == ("sst2",) and by_name[COMBINED].p == 1
    # Holm: the smallest of three by 3, the next by 2
    assert entropy.p_holm == pytest.approx(3 * entropy.p)
    assert scored.p_holm == pytest.approx(2 * scored.p)
    assert scored.loss[0] == pytest.approx(0.02)


def test_a_task_with_nothing_above_chance_is_left_out():
    found = {
        "sst2": values(entropy=(0.1, 0.02)),
        "mrpc": values(entropy=(-3.0, 1.0)) | {"least_above_chance": 0.0},
    }
    by_name = {one.name: one for one in decide(found)}
    entropy = by_name[FAMILY[1]]
    assert entropy.tasks == ("sst2",)
    assert entropy.word == "better" and entropy.value == pytest.approx(0.1)
    (alone,) = [one for one in decide({"mrpc": found["mrpc"]}) if one.name == FAMILY[1]]
    assert alone.word == "not run"


def test_nearest_to_chance_is_what_keeps_least_of_its_own_score():
    def scored(least, uncut, chance=0.0):
        score = {"importance": {"score": [uncut, 0.1]}}
        return {"least_above_chance": least, "chance": chance, "orders": score}

    found = {
        "bleu": scored(20.0, 25.0),
        "f1": scored(0.01, 0.85, 0.8),  # a fifth of 5 points is left
        "accuracy": scored(0.005, 0.51, 0.5),  # half of one
        "none": scored(0.0, 0.81, 0.8),  # does not count
    }
    assert nearest_to_chance(found) == "f1"
    assert nearest_to_chance({"none": found["none"]}) is None
