"""Page 01."""

import numpy as np

from headprune_lib.replication.bounds import C1_REMOVABLE_LOW, DELTA
from statements import found, on, row, values

PAGE = "notebooks/01_one_head.ipynb"
OURS = ("one_head", "reviews", "minilm")
HELD = ("one_head", "snli-held", "minilm")


def fewest():
    """The encoder's result with the smallest share of removable heads."""

    def share(one):
        counts = one.values["counts"]
        return counts["removable"] / counts["heads"]

    return min(found("figure1b"), key=share)


def more_sensitive():
    counts = values(*OURS)["counts"]
    in_loss = counts["loss_losses"] + counts["loss_gains"]
    return in_loss > counts["significant_losses"] + counts["significant_gains"]


def not_idle():
    """Some heads are removable, and change the log-loss significantly."""
    return any(
        head["removable"] and head["delta_loss_p_holm"] < 0.01 for head in values(*OURS)["heads"]
    )


def too_few_examples():
    """The median head's smallest detectable change is above the loss that counts."""
    heads = fewest().values["heads"]
    return np.median([head["smallest_detectable"] for head in heads]) > DELTA


def judged_of_fewest():
    one = fewest()
    return row("one_head", one.task, one.model, "C1")


STATEMENTS = on(
    PAGE,
    {
        "The result does not count: with {glue:text}`least_n` test pairs the rule would decide with "
        "probability {glue:text}`least_power` only.": lambda: (
            fewest().values["removable"]["power"] < 0.3 and not judged_of_fewest().counts
        ),
        "The lower end of that interval is below 70%, so our rule says *undecided*.": lambda: (
            judged_of_fewest().word == "undecided"
            and fewest().values["removable"]["removable_interval"][0] < C1_REMOVABLE_LOW
        ),
        "It says the same of MPNet, with power": lambda: all(
            (one := row("one_head", "snli-held", model, "C1")).judged.word == "replicates"
            and one.counts
            for model in ("minilm", "mpnet")
        ),
        "Of the other test sets SNLI's held pairs are the largest": lambda: (
            max((one.n_examples, one.task) for one in found("figure1b") if one.task != "mnli")[1]
            == "snli-held"
            and row(*HELD, "C1").judged.word == "replicates"
        ),
        "The log-loss is more sensitive than accuracy": more_sensitive,
        "Heads that cost no accuracy are not idle.": not_idle,
        '"not significant" is weak evidence': too_few_examples,
    },
)
