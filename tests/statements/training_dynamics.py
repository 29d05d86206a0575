"""Page 07."""

from statements import Statement, row, values

PAGE = "notebooks/07_training_dynamics.ipynb"
POST = ("along_training", "deen", "post-norm")


def points():
    (training,) = values(*POST)["trainings"]
    return training["checkpoints"]


def along(name):
    return [point[name] for point in points()]


STATEMENTS = [
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
        "The Gini coefficient over all heads falls",
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
        "The training above was measured before that rule was fixed, and without random orders.",
        lambda: (
            row(*POST, "C5").kind == "exploratory"
            and all(random is None for random in along("kept_random"))
        ),
    ),
]
