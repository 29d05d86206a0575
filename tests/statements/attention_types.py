"""Page 06."""

from headprune_lib.replication.claims.rules import C4_PAPER_LEFT
from headprune_lib.replication.published import paper
from headprune_lib.replication.stats.bounds import C4_SHOWN, C4_UP_TO
from statements import Statement, row, values

PAGE = "notebooks/06_attention_types.ipynb"
OURS = ("pruning_by_kind", "enfr", "post-norm")
SECOND = ("pruning_by_kind", "deen", "pre-norm")


def gap(other, removed, of=OURS):
    along = values(*of)["differences_along"][f"enc-dec minus {other}"]
    return along[round(10 * removed)]["interval"]


def left(kind, removed, of=OURS):
    return values(*of)["kept"][f"{kind} importance"]["kept"][round(10 * removed)]


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
        "Yes, the decoder's attention to the encoder (*enc-dec*) is missed most.",
        lambda: row(*OURS, "C4").word == "replicates",
    ),
    Statement(
        PAGE,
        "BLEU left, enc-dec minus each other kind, at four shares removed.",
        lambda: tuple(values(*OURS)["shown"]) == C4_SHOWN and len(C4_SHOWN) == 4,
    ),
    Statement(
        PAGE,
        "The kinds do not keep one order all along. At 40% it is *dec-dec* that has lost more",
        lambda: gap("dec-dec", 0.4)[0] > 0,
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
        "measured after the rules were fixed. It says the same, more clearly: no difference "
        "between *enc-dec* and *dec-dec* at 40%, and from 60% on *enc-dec* is missed most.",
        lambda: (
            row(*SECOND, "C4").word == "replicates"
            and not row(*SECOND, "C4").seen
            and gap("dec-dec", 0.4, SECOND)[0] < 0 < gap("dec-dec", 0.4, SECOND)[1]
            and all(
                gap(other, removed, SECOND)[1] < 0
                for other in ("enc-enc", "dec-dec")
                for removed in (0.6, 0.7, 0.8, 0.9)
            )
            and max(values(*SECOND)["areas"][kind]["difference"] for kind in ("enc-enc", "dec-dec"))
            < max(values(*OURS)["areas"][kind]["difference"] for kind in ("enc-enc", "dec-dec"))
        ),
    ),
    Statement(
        PAGE,
        "Without any attention of the encoder to itself that model keeps almost nine tenths of its BLEU.",
        lambda: 0.87 < left("enc-enc", 1.0, SECOND) < 0.9,
    ),
    Statement(
        PAGE,
        "Here *enc-enc* does better than that and *dec-dec* worse, in both models, so the "
        "paper's own criterion is not met.",
        lambda: all(
            left("enc-enc", 0.8, of) > 0.83 > left("dec-dec", 0.8, of)
            and row(*of, "C4").judged.met is False
            for of in (OURS, SECOND)
        ),
    ),
]
