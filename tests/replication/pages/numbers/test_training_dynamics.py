"""Page 07."""

from types import SimpleNamespace

import pytest

from headprune_lib.replication.pages import numbers


def test_first_best_and_last_checkpoint(result):
    points = result("figure5").values["trainings"][0]["checkpoints"]
    found = numbers.training_dynamics(result("figure5"))
    assert found["cut"] == pytest.approx(40)
    kept = {point["epoch"]: 100 * point["bleu"][4] / point["bleu"][0] for point in points}
    assert (found["first_epoch"], found["last_epoch"]) == (f"{min(kept):g}", f"{max(kept):g}")
    assert found["first_kept"] == pytest.approx(kept[min(kept)], rel=1e-3)
    assert found["best_kept"] == pytest.approx(max(kept.values()), rel=1e-3)
    within = [point["gini_within"] for point in points]
    assert (found["first_within"], found["last_within"]) == (within[0], within[-1])
    assert found["most_within"] == max(within)
    assert found["last_cost"] == points[-1]["loss"][4] - points[-1]["loss"][0]


def checkpoint(epoch, bleu, scale):
    names = ("kept_at", "kept_unnormalised", "kept_random", "added_loss", "added_loss_random")
    ginis = {"gini_within": 0.1 * scale, "gini": 0.2 * scale}
    point = {name: scale * (i + 1) for i, name in enumerate(names)}
    return {**point, **ginis, "epoch": epoch, "updates": 100 * epoch, "bleu": [bleu]}


def test_several_trainings_are_means_of_checkpoints_that_have_learned_something():
    values = {
        "trainings": [
            {"checkpoints": [checkpoint(0, 0.0, 9), checkpoint(1, 2.0, 1), checkpoint(6, 20.0, 3)]},
            {
                "checkpoints": [
                    checkpoint(0.5, 0.9, 9),
                    checkpoint(2, 4.0, 2),
                    checkpoint(6, 24.0, 5),
                ]
            },
        ],
        "slopes": {
            "kept": {"difference": 0.1, "interval": [0.05, 0.15]},
            "gini": {"difference": -0.01, "interval": None},
        },
    }
    found = numbers.several_trainings(SimpleNamespace(values=values, n_examples=256), "pre")
    assert (found["pre_n"], found["pre_trainings"]) == ("256", "2")
    assert (found["pre_first_epoch"], found["pre_last_epoch"]) == ("1.5", "6")
    assert (found["pre_first_bleu"], found["pre_last_bleu"]) == ("3.0", "22.0")
    assert (found["pre_first_kept"], found["pre_last_kept"]) == ("150", "400")
    assert (found["pre_first_random"], found["pre_last_unnormalised"]) == ("450", "800")
    assert (found["pre_first_cost"], found["pre_last_random_cost"]) == ("6.00", "20.00")
    assert (found["pre_first_within"], found["pre_last_within"]) == ("0.15", "0.40")
    assert found["pre_kept_slope"] == "+0.100 [+0.050, +0.150]"
    assert found["pre_gini_slope"] == "−0.010" and found["pre_loss_slope"] == "not measured"
    nothing = numbers.several_trainings(None, "pre")
    assert {*nothing} == {*found} and {*nothing.values()} == {"not measured"}


def test_a_training_without_random_orders_says_so(result):
    found = numbers.several_trainings(result("figure5"), "post")
    assert found["post_last_random"] == found["post_kept_slope"] == "not measured"
    assert float(found["post_last_kept"]) > 0
