"""Page 11."""

import numpy as np

from headprune_lib.replication.claims.contrasts import decide
from headprune_lib.replication.measurements.contrasts import COMBINED
from statements import Statement, found, result

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


def area(of, name):
    (each,) = [each for each in models() if (each.task, each.model) == of]
    return each.values["contrasts"][name]["area"]["interval"]


def spread(task, model):
    """The largest norm of a layer's importance over the smallest."""
    raw = result("which_first", task, model).parts["importance unnormalised"].raw
    if not any(name.startswith("scores") for name in raw):  # measured before they were kept
        raw = result("pruning_curve", task, model).parts["importance"].raw
    norms = [
        np.linalg.norm(values[0] if values.ndim == 3 else values, axis=1)
        for name, values in raw.items()
        if name.startswith("scores")
    ]
    return np.concatenate(norms).max() / np.concatenate(norms).min()


ENCODER, TRANSLATOR = ("reviews", "minilm"), ("deen", "post-norm")

STATEMENTS = [
    Statement(
        PAGE,
        "({glue:text}`models`; one training each)",
        lambda: (
            {(each.task, each.model) for each in models()} == {ENCODER, TRANSLATOR}
            and all(
                one["trainings"] == [1]
                for each in models()
                for one in each.values["orders"].values()
            )
        ),
    ),
    Statement(
        PAGE,
        "entropy is best left out.",
        lambda: all(order(each.values, COMBINED)["said"] == ["alpha=1"] for each in models()),
    ),
    Statement(
        PAGE,
        "All of the difference is the translator's.",
        lambda: (
            area(ENCODER, "entropy against random")[0]
            < 0
            < area(ENCODER, "entropy against random")[1]
            and area(TRANSLATOR, "entropy against random")[1] < -0.3
        ),
    ),
    Statement(
        PAGE,
        "The two models disagree:",
        lambda: (
            area(TRANSLATOR, "not normalised against normalised")[0]
            > 0
            > area(ENCODER, "not normalised against normalised")[1]
        ),
    ),
    Statement(
        PAGE,
        "As it is, it is better on the translator, where the norms that importance is divided by differ "
        "sixfold between layers, and worse on the encoder, where they differ twofold.",
        lambda: round(spread(*TRANSLATOR)) == 6 and round(spread(*ENCODER)) == 2,
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
        "with a tenth of the heads gone it has lost almost half of its BLEU.",
        lambda: all(
            0.5 < order(each.values, "entropy")["kept"][2] < 0.56
            for each in models()
            if each.model == "post-norm"
        ),
    ),
]
