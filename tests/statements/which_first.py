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


def kept_by_entropy(of):
    (each,) = [each for each in models() if (each.task, each.model) == of]
    return order(each.values, "entropy")["kept"][each.values["shares"].index(0.1)]


ENCODER, PAIRS, TRANSLATOR = ("reviews", "minilm"), ("snli", "minilm"), ("deen", "post-norm")

TRANSLATORS = (TRANSLATOR, ("deen", "pre-norm"))


def _division():
    """Whether all but the reviews keep more without the division by layer, and these less."""
    name = "not normalised against normalised"
    return (
        all(area(one, name)[0] > 0 for one in (PAIRS, *TRANSLATORS)) and area(ENCODER, name)[1] < 0
    )


STATEMENTS = [
    Statement(
        PAGE,
        "one training each: {glue:text}`models`",
        lambda: (
            {(each.task, each.model) for each in models()} == {ENCODER, PAIRS, *TRANSLATORS}
            and all(
                len(one["trainings"]) == 1
                for each in models()
                for one in each.values["orders"].values()
            )
        ),
    ),
    Statement(
        PAGE,
        "Attention entropy gives no better order, alone or beside importance.",
        lambda: (
            contrast("combined against importance").word == "no difference shown"
            and contrast("entropy against random").word == "worse"
        ),
    ),
    Statement(
        PAGE,
        "So entropy is left out of three models. In the fourth, the pre-norm translator, it gives",
        lambda: (
            {(each.task, each.model): order(each.values, COMBINED)["said"] for each in models()}
            == {
                ENCODER: ["alpha=1"],
                PAIRS: ["alpha=1"],
                TRANSLATOR: ["alpha=1"],
                TRANSLATORS[1]: ["alpha=0.75"],
            }
        ),
    ),
    Statement(
        PAGE,
        "On the reviews no difference is shown; on the other three models the interval lies below 0.",
        lambda: (
            area(ENCODER, "entropy against random")[0]
            < 0
            < area(ENCODER, "entropy against random")[1]
            and all(area(one, "entropy against random")[1] < 0 for one in (PAIRS, *TRANSLATORS))
        ),
    ),
    Statement(
        PAGE,
        "What does matter is the paper's division by layer: three of four models keep more without it, "
        "one keeps less.",
        lambda: contrast("not normalised against normalised").word == "better" and _division(),
    ),
    Statement(
        PAGE,
        "The models disagree: both translators and MiniLM on SNLI keep more without the division, MiniLM "
        "on the reviews keeps less.",
        _division,
    ),
    Statement(
        PAGE,
        "The largest norm of a layer is sixfold the smallest and more in the translators, but on SNLI as "
        "on the reviews it is two to three times.",
        lambda: (
            all(round(spread(*one)) >= 6 for one in TRANSLATORS)
            and all(2 <= spread(*one) <= 3 for one in (ENCODER, PAIRS))
        ),
    ),
    Statement(
        PAGE,
        "all of them in the pre-norm translator, where entropy has a weight. There entropy says "
        "something that chance does not, but ranking by kinds costs more than that.",
        lambda: (
            area(TRANSLATORS[1], "combined against its control")[0] > 0
            and area(TRANSLATORS[1], "combined against importance")[1] < 0
            and all(
                max(map(abs, area(one, "combined against its control"))) < 1e-9
                for one in (ENCODER, PAIRS, TRANSLATOR)
            )
        ),
    ),
    Statement(
        PAGE,
        "with a tenth of the heads gone the post-norm one has lost almost half of its BLEU, the pre-norm "
        "one a seventh.",
        lambda: (
            0.5 < kept_by_entropy(TRANSLATOR) < 0.56
            and round(1 / (1 - kept_by_entropy(TRANSLATORS[1]))) == 7
        ),
    ),
]
