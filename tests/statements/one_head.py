"""Page 01."""

import numpy as np

from headprune_lib.replication.published import paper
from headprune_lib.replication.stats.bounds import C1_REMOVABLE, C1_REMOVABLE_LOW, DELTA, DELTA_BLEU
from statements import Statement, found, row, values

PAGE = "notebooks/01_one_head.ipynb"
OURS = ("one_head", "reviews", "minilm")
HELD = ("one_head", "snli-held", "minilm")
TRANSLATOR = ("one_head", "enfr", "post-norm")


def encoders():
    return [one for one in found("one_head") if one.metric != "BLEU" and one.model != "post-norm"]


def fewest():
    """The encoder's result with the smallest share of removable heads."""

    def share(one):
        counts = one.values["counts"]
        return counts["removable"] / counts["heads"]

    return min(encoders(), key=share)


def kinds_of(heads):
    return {
        kind: (
            len({head["layer"] for head in heads if head["kind"] == kind}),
            len({head["head"] for head in heads if head["kind"] == kind}),
        )
        for kind in {head["kind"] for head in heads}
    }


def signs_of_the_paper():
    """Of the heads that the paper marks: how many changes of BLEU, how many of them gains."""
    table = paper("table1")
    changes = [table["delta_bleu"][layer - 1][head - 1] for layer, head in table["significant"]]
    return len(changes), sum(change > 0 for change in changes)


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


STATEMENTS = [
    Statement(
        PAGE,
        "It says the same of MPNet, with power",
        lambda: all(
            (one := row("one_head", "snli-held", model, "C1")).judged.word == "replicates"
            and one.counts
            for model in ("minilm", "mpnet")
        ),
    ),
    Statement(
        PAGE,
        "The largest test set is SNLI's held pairs",
        lambda: (
            max(encoders(), key=lambda one: one.n_examples).task == "snli-held"
            and row(*HELD, "C1").judged.word == "replicates"
        ),
    ),
    Statement(
        PAGE,
        "In the paper 8 of 96 heads change BLEU significantly, and 4 of these 8 changes are gains.",
        lambda: signs_of_the_paper() == (8, 4),
    ),
    Statement(
        PAGE,
        "the 95% interval of the paired change rules out a loss of one point.",
        lambda: DELTA == 0.01,
    ),
    Statement(
        PAGE,
        "Our rule for C1 asks for 80% of the heads, and for 70% at the lower end of that interval",
        lambda: (C1_REMOVABLE, C1_REMOVABLE_LOW) == (0.8, 0.7),
    ),
    Statement(PAGE, "The log-loss is more sensitive than accuracy", more_sensitive),
    Statement(PAGE, "Heads that cost no accuracy are not idle.", not_idle),
    Statement(
        PAGE,
        "BERT-base has twelve layers of twelve heads. So has MPNet, which is fine-tuned here on "
        "SST-2 and on SNLI.",
        lambda: (
            all(
                kinds_of(one.values["heads"]) == {"self": (12, 12)}
                for one in encoders()
                if one.model == "mpnet"
            )
            and {"sst2", "snli"} <= {one.task for one in encoders() if one.model == "mpnet"}
        ),
    ),
    Statement(
        PAGE,
        "The lower end of that interval is below 70%, so our rule says *undecided*.",
        lambda: (
            judged_of_fewest().word == "undecided"
            and fewest().values["removable"]["removable_interval"][0] < C1_REMOVABLE_LOW
        ),
    ),
    Statement(
        PAGE,
        "The result does not count: with {glue:text}`least_n` test pairs the rule would decide "
        "with probability {glue:text}`least_power` only.",
        lambda: fewest().values["removable"]["power"] < 0.3 and not judged_of_fewest().counts,
    ),
    Statement(PAGE, '"not significant" is weak evidence', too_few_examples),
    Statement(
        PAGE,
        "The most costly cut of all 288 is head",
        lambda: (
            set(kinds_of(values(*TRANSLATOR)["heads"]).values()) == {(6, 16)}
            and len(values(*TRANSLATOR)["heads"]) == 288
        ),
    ),
    Statement(
        PAGE,
        "The paper shows only the encoder's own heads (*enc-enc*).",
        lambda: np.shape(paper("table1")["delta_bleu"]) == (6, 16),
    ),
    Statement(PAGE, "rules out a loss of half a BLEU point", lambda: DELTA_BLEU == 0.5),
    Statement(PAGE, "the paper counts 8 of 96", lambda: signs_of_the_paper()[0] == 8),
    Statement(
        PAGE,
        "MiniLM has 72 heads of width 32",
        lambda: values(*OURS)["counts"]["heads"] == 72,
    ),
]
