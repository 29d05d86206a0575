"""Page 07."""

import numpy as np

from headprune_lib.replication.published import independent_curves
from statements import Statement, row, values

PAGE = "notebooks/07_training_dynamics.ipynb"
POST = ("along_training", "deen", "post-norm")


PRE = ("along_training", "deen", "pre-norm")


def points():
    (training,) = values(*POST)["trainings"]
    return training["checkpoints"]


def before(name, place):
    """Of every pre-norm training, at the first checkpoint that has learned anything, or the last."""
    learned = [
        [point for point in training["checkpoints"] if point["bleu"][0] >= 1]
        for training in values(*PRE)["trainings"]
    ]
    return np.array([points[place][name] for points in learned])


def slope(name):
    return values(*PRE)["slopes"][name]


def alike_as_long_as_both_are_trained():
    """What is kept at each post-norm checkpoint, beside the mean of the others at these updates."""
    trainings = [
        [point for point in training["checkpoints"] if point["updates"]]
        for training in values(*PRE)["trainings"]
    ]
    last = trainings[0][-1]["updates"]
    shared = [point for point in points() if point["bleu"][0] >= 10 and point["updates"] <= last]
    for point in shared:
        others = [
            np.interp(
                np.log(point["updates"]),
                np.log([one["updates"] for one in each]),
                [one["kept_at"] for one in each],
            )
            for each in trainings
        ]
        if abs(np.mean(others) - point["kept_at"]) > 0.1:
            return False
    return len(shared) >= 2


def along(name):
    return [point[name] for point in points()]


def others_keep_less():
    """Others' 40% removed of the paper's model: below 85% of BLEU from epoch 10 on."""
    again = independent_curves()["figure5"]
    at = again["percent_removed"].index(40)
    kept = [b[at] / b[0] for epoch, b in again["bleu_by_epoch"].items() if int(epoch) >= 10]
    return len(kept) > 3 and max(kept) < 0.85


STATEMENTS = [
    Statement(
        PAGE,
        "In the paper's model, measured by others, 40% removed always keeps less than the paper's 85% "
        "from epoch 10 on.",
        others_keep_less,
    ),
    Statement(
        PAGE,
        "Our pre-norm models keep about nine tenths from the start; the post-norm model keeps less and "
        "less after epoch 5.",
        lambda: (
            all(0.85 < kept < 1.1 for kept in before("kept_at", 0))
            and all(0.85 < kept < 1.1 for kept in before("kept_at", -1))
            and max(points(), key=lambda point: point["kept_at"])["epoch"] == 5
            and along("kept_at")[2:] == sorted(along("kept_at")[2:], reverse=True)
        ),
    ),
    Statement(
        PAGE,
        "The share rises at first and then **turns round**",
        lambda: along("kept_at")[0] < max(along("kept_at")) > along("kept_at")[-1] + 0.1,
    ),
    Statement(
        PAGE,
        "the better this model becomes, the more it needs its heads",
        lambda: (
            along("added_loss")[-1] > along("added_loss")[0]
            and points()[-1]["bleu"][0] == max(point["bleu"][0] for point in points())
        ),
    ),
    Statement(
        PAGE,
        "Its Gini coefficient over all heads falls",
        lambda: along("gini_interval")[-1][1] < along("gini_interval")[0][0],
    ),
    Statement(
        PAGE,
        "In this model heads separate and then come together again.",
        lambda: (
            along("gini_within")[0] + 0.02
            < max(along("gini_within"))
            > along("gini_within")[-1] + 0.05
        ),
    ),
    Statement(
        PAGE,
        "The post-norm training was measured before that rule was fixed, and without random "
        "orders, so it does not vote.",
        lambda: (
            row(*POST, "C5").kind == "exploratory"
            and not row(*POST, "C5").votes
            and all(random is None for random in along("kept_random"))
        ),
    ),
    Statement(
        PAGE,
        "the gap between removing heads by importance and at random grows. But importance is "
        "spread within a layer nearly as evenly at the end as at the start, and a post-norm "
        "model that is trained much longer turns round.",
        lambda: (
            (before("added_loss_random", -1) > 3 * before("added_loss", -1)).all()
            and all(run > 0 for name in ("kept", "loss") for run in slope(name)["runs"])
            and abs(slope("gini")["difference"]) < 0.02
            and along("kept_at")[-1] < max(along("kept_at")) - 0.1
        ),
    ),
    Statement(
        PAGE,
        "So what a *good* choice keeps stays where it was, and what a *bad* one costs grows.",
        lambda: (
            abs(before("kept_at", -1).mean() - before("kept_at", 0).mean()) < 0.1
            and (before("kept_random", -1) < before("kept_random", 0) - 0.1).all()
        ),
    ),
    Statement(
        PAGE,
        "The paper's reading, that every head counts in the first epochs, is not what this model shows: "
        "there hardly any head counts yet.",
        lambda: before("kept_random", 0).mean() > 0.75,
    ),
    Statement(
        PAGE,
        "**These two models do not show it**: as long as both are trained, they keep alike, "
        "and the turn comes after the epochs that the pre-norm model was given.",
        lambda: (
            alike_as_long_as_both_are_trained()
            and max(points(), key=lambda point: point["kept_at"])["updates"] >= 3225
            and along("kept_at")[-1] < max(along("kept_at")) - 0.1
        ),
    ),
    Statement(
        PAGE,
        "So does the one that was trained several times here, for six epochs.",
        lambda: (
            {training["checkpoints"][-1]["epoch"] for training in values(*PRE)["trainings"]} == {6}
        ),
    ),
]
