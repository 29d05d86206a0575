"""Page 11."""

from headprune_lib.replication.claims.contrasts import decide
from headprune_lib.replication.measurements.contrasts import COMBINED
from statements import Statement, found

PAGE = "notebooks/11_which_first.ipynb"


def models():
    return found("which_first")


def contrast(name):
    (one,) = [
        one
        for one in decide({"/".join(each.key): each.values for each in models()})
        if one.name == name
    ]
    return one


def order(values, name):
    return values["orders"][name]


STATEMENTS = [
    Statement(
        PAGE,
        "({glue:text}`n_models` model, each after one training)",
        lambda: all(
            one["trainings"] == [1] for each in models() for one in each.values["orders"].values()
        ),
    ),
    Statement(
        PAGE,
        "entropy is best left out.",
        lambda: all(order(each.values, COMBINED)["said"] == ["alpha=1"] for each in models()),
    ),
    Statement(
        PAGE,
        "What the combined order gains is the ranking by kinds, not entropy.",
        lambda: (
            contrast("combined against importance").value > 0
            and all(abs(end) < 1e-9 for end in contrast("combined against importance").control)
        ),
    ),
    Statement(
        PAGE,
        "Some of them are what the model cannot do without.",
        lambda: all(
            order(each.values, "entropy")["kept"][2] < order(each.values, "random")["kept"][2] - 0.2
            for each in models()
        ),
    ),
]
