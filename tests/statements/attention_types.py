"""Page 06."""

from headprune_lib.replication.claims.rules import C4_PAPER_LEFT
from headprune_lib.replication.published import paper
from headprune_lib.replication.stats.bounds import C4_SHOWN, C4_UP_TO
from statements import Statement, found, row, values

PAGE = "notebooks/06_attention_types.ipynb"
OURS = ("pruning_by_kind", "enfr", "post-norm")
GERMAN = [("pruning_by_kind", "deen", model) for model in ("pre-norm", "post-norm-6")]


def gap(other, removed, of=OURS):
    along = values(*of)["differences_along"][f"enc-dec minus {other}"]
    return along[round(10 * removed)]["interval"]


def left(kind, removed, of=OURS):
    return values(*of)["kept"][f"{kind} importance"]["kept"][round(10 * removed)]


def nearest_rival(of):
    """Area of enc-dec minus that of the kind that is missed second most; below 0."""
    return max(values(*of)["areas"][kind]["difference"] for kind in ("enc-enc", "dec-dec"))


STATEMENTS = [
    Statement(
        PAGE,
        "from 60% on enc-dec falls to nothing, and enc-enc stays highest.",
        lambda: (
            left("enc-dec", 0.9) < 0.1
            and all(
                left("enc-enc", removed) > max(left("enc-dec", removed), left("dec-dec", removed))
                for removed in (0.6, 0.7, 0.8, 0.9)
            )
        ),
    ),
    Statement(
        PAGE,
        "are compared by their mean over 0 to 90% removed",
        lambda: C4_UP_TO == 0.9,
    ),
    Statement(
        PAGE,
        "Yes, in each of three translators the decoder's attention to the encoder (*enc-dec*) is "
        "missed most.",
        lambda: (
            all(row(*of, "C4").word == "replicates" for of in (OURS, *GERMAN))
            and len(found("pruning_by_kind")) == 3
        ),
    ),
    Statement(
        PAGE,
        "A line with a band is the mean of three, and the band reaches from the lowest to the highest "
        "of them: three random orders, or three trainings.",
        lambda: (
            {
                (one.model, order.split()[-1], len(curve["runs"]))
                for one in found("pruning_by_kind")
                for order, curve in one.values["curves"].items()
                if len(curve["runs"]) > 1
            }
            == {
                ("post-norm", "random", 3),
                ("post-norm", "importance", 3),
                ("post-norm-6", "importance", 3),
                ("pre-norm", "importance", 3),
            }
        ),
    ),
    Statement(
        PAGE,
        "Up to 40%, dec-dec loses as much as enc-dec",
        lambda: all(
            gap("dec-dec", removed, of)[1] >= 0
            for of in (OURS, *GERMAN)
            for removed in (0.1, 0.2, 0.3, 0.4)
        ),
    ),
    Statement(
        PAGE,
        "BLEU left, enc-dec minus each other kind, at four shares removed.",
        lambda: tuple(values(*OURS)["shown"]) == C4_SHOWN and len(C4_SHOWN) == 4,
    ),
    Statement(
        PAGE,
        "The kinds do not keep one order all along. At 40% no difference between *enc-dec* and *dec-dec* is "
        "shown",
        lambda: gap("dec-dec", 0.4)[0] <= 0 <= gap("dec-dec", 0.4)[1],
    ),
    Statement(PAGE, "At 60% *enc-dec* has lost more", lambda: gap("dec-dec", 0.6)[1] < 0),
    Statement(
        PAGE,
        "never trained for it, still has {glue:text}`enc_enc_none:.1f` BLEU",
        lambda: left("enc-enc", 1.0) > 0.5 and left("enc-dec", 1.0) < 0.1,
    ),
    Statement(
        PAGE,
        "With 20% of a kind's heads left the paper has about 30 of 36 BLEU, or 83%, without "
        "the rest of *enc-enc* or of *dec-dec*.",
        lambda: (
            paper("figure4")["enc-enc_bleu_with_20_percent_left"] == 30
            and paper("figure4")["dec-dec_bleu_with_20_percent_left"] == 30
            and round(paper("table1")["base_bleu"]) == 36
            and C4_PAPER_LEFT == 0.2
        ),
    ),
    Statement(
        PAGE,
        "one has the norm before each block, as the paper's IWSLT model, the other after it, and "
        "each is the mean of three trainings.",
        lambda: [row(*of, "C4").judged.trainings for of in GERMAN] == [3, 3],
    ),
    Statement(
        PAGE,
        "the post-norm one after Figure 5 had shown its outcome in part. They say the same: no "
        "difference between *enc-dec* and *dec-dec* is shown at 40%, and from 60% on removing "
        "*enc-dec* hurts most.",
        lambda: all(
            row(*of, "C4").word == "replicates"
            and row(*of, "C4").seen == ("partly" if of[2] == "post-norm-6" else False)
            and gap("dec-dec", 0.4, of)[0] < 0 < gap("dec-dec", 0.4, of)[1]
            and all(
                gap(other, removed, of)[1] < 0
                for other in ("enc-enc", "dec-dec")
                for removed in (0.6, 0.7, 0.8, 0.9)
            )
            and nearest_rival(of) < nearest_rival(OURS)
            for of in GERMAN
        ),
    ),
    Statement(
        PAGE,
        "Without any attention of the encoder to itself they keep 94% and 90% of their BLEU.",
        lambda: [round(left("enc-enc", 1.0, of), 2) for of in GERMAN] == [0.94, 0.9],
    ),
    Statement(
        PAGE,
        "Here *enc-enc* does better than that and *dec-dec* worse, in all three models, so the "
        "paper's own criterion is not met.",
        lambda: all(
            left("enc-enc", 0.8, of) > 0.83 > left("dec-dec", 0.8, of)
            and row(*of, "C4").judged.met is False
            for of in (OURS, *GERMAN)
        ),
    ),
]
