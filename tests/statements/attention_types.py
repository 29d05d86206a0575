"""Page 06."""

from headprune_lib.replication.claims.rules import C4_PAPER_LEFT
from headprune_lib.replication.published import paper
from headprune_lib.replication.stats.bounds import C4_SHOWN, C4_UP_TO
from statements import Statement, row, values

PAGE = "notebooks/06_attention_types.ipynb"
OURS = ("pruning_by_kind", "enfr", "post-norm")


def gap(other, removed):
    along = values(*OURS)["differences_along"][f"enc-dec minus {other}"]
    return along[round(10 * removed)]["interval"]


def left(kind, removed):
    return values(*OURS)["kept"][f"{kind} importance"]["kept"][round(10 * removed)]


STATEMENTS = [
    Statement(
        PAGE,
        "in the mean while 0 to 90% of one kind's heads go",
        lambda: C4_UP_TO == 0.9,
    ),
    Statement(
        PAGE,
        "the model depends most on *enc-dec*, intervals included.",
        lambda: row(*OURS, "C4").word == "replicates",
    ),
    Statement(
        PAGE,
        "The same difference in BLEU at four shares:",
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
        "with 20% of a kind's heads left the paper has about 30 of 36 BLEU, or 83%, without the rest "
        "of *enc-enc* or of *dec-dec*",
        lambda: (
            paper("figure4")["enc-enc_bleu_with_20_percent_left"] == 30
            and paper("figure4")["dec-dec_bleu_with_20_percent_left"] == 30
            and round(paper("table1")["base_bleu"]) == 36
            and C4_PAPER_LEFT == 0.2
        ),
    ),
    Statement(
        PAGE,
        "Here *enc-enc* does better than that and *dec-dec* worse, so that the paper's own criterion "
        "is not met.",
        lambda: (
            left("enc-enc", 0.8) > 0.83 > left("dec-dec", 0.8)
            and row(*OURS, "C4").judged.met is False
        ),
    ),
]
