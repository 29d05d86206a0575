"""Page 04: the translators."""

from headprune_lib.replication.claims.others import others_rows
from headprune_lib.replication.claims.rules import share_judged
from headprune_lib.replication.published import published_shares
from statements import on, row, values
from statements.curves import CURVE, EARLY, WHOLE, fine_tunings, kept, seen, word

PAGE = "notebooks/04_iterative_pruning.ipynb"
ENFR = (CURVE, "enfr", "post-norm")
SIX_EPOCHS = ("post-norm-6", "pre-norm")


def others(claim, setting):
    return next(one for one in others_rows() if (one.claim, one.setting) == (claim, setting))


def overlap(one, two):
    """Whether two intervals share anything."""
    return max(one[0], two[0]) <= min(one[1], two[1])


def captions_keep():
    """The row of C3 replicates, and with a fifth gone at random over nine tenths are left."""
    means = values(CURVE, "multi30k", "pre-norm")["curves"]["random"]["mean"]
    return word("multi30k", "pre-norm") == "replicates" and means[2] > 0.9 * means[0]


STATEMENTS = on(
    PAGE,
    {
        "{glue:text}`deen_kept` without 20% (undecided)": lambda: (
            word("deen", "post-norm") == "undecided"
            and share_judged("deen", "translation") == published_shares()["iwslt"] == 0.2
        ),
        "The result does not count for C8: others found a difference on the paper's IWSLT model "
        "that is too small for these verses to show": lambda: (
            not row(*ENFR, "C8").counts and bool(others("C8", "fairseq's IWSLT model"))
        ),
        "mean of three trainings): at least 95%, interval included.": lambda: (
            kept("enfr", "post-norm", 0.2)[1] >= 0.95 and fine_tunings("post-norm", "enfr") == {3}
        ),
        "Here importance does better *without* the paper's normalisation": lambda: all(
            seen(ENFR, "importance unnormalised", areas) == -1 for areas in (EARLY, WHOLE)
        ),
        "post-norm (mean of three trainings) and {glue:text}`deen_pre_kept` pre-norm, both at "
        "least 95%, interval included. The norm makes no difference that can be seen, the "
        "longer training may.": lambda: (
            min(kept("deen", model, 0.2)[1] for model in SIX_EPOCHS) >= 0.95
            and fine_tunings("post-norm-6", "deen") == {3}
            and overlap(*(kept("deen", model, 0.2)[1:] for model in SIX_EPOCHS))
            and all(
                kept("deen", "post-norm", 0.2)[0] < kept("deen", model, 0.2)[1]
                for model in SIX_EPOCHS
            )
        ),
        "A pre-norm translator of captions (Multi30k) keeps at least 95% as well; random orders "
        "keep over nine tenths of it.": captions_keep,
    },
)
