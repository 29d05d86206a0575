"""Page 14."""

from headprune_lib.replication.claims.questions import WAY, decide_recovery, recovery_word
from headprune_lib.replication.pages.numbers.recovery import lead_of, row_of
from statements import on, result

PAGE = "notebooks/14_recovery.ipynb"
SHARES = (0.4, 0.6)  # of which something is lost; beside them 0.2
EVERY = (0.2, *SHARES)


def values():
    return result("recovery", "reviews", "minilm").values


def lead(share, order="importance", way=WAY):
    return lead_of(values(), order, share, way)


def left(lead):
    """The share of a lead that is left after training."""
    return lead["after"]["difference"] / lead["before"]["difference"]


def translated():
    return result("recovery", "deen", "pre-norm").values


def bleu_lead(share, order="importance"):
    return lead_of(translated(), order, share)


def bleu_row(order, share):
    return row_of(translated(), order, share)


def bleu_after(order, share):
    return bleu_row(order, share)["after"]["score"]


def row(order, share):
    return row_of(values(), order, share)


STATEMENTS = on(
    PAGE,
    {
        "on a small encoder, by a hair, and on a small translator it {glue:text}`bleu_word`: of "
        "its lead over random orders a fifth is left on the first and an eighth on the second, "
        "after one epoch of training.": lambda: (
            decide_recovery(values()).word == decide_recovery(translated()).word == "still matters"
            and 0 < decide_recovery(values()).after[1] < 0.001
            and all(round(1 / left(lead(share))) == 5 for share in SHARES)
            and round(1 / left(bleu_lead(0.4))) == 8
        ),
        "Random orders recover almost all they had lost.": lambda: all(
            0.8
            < (row("random", share)["after"]["score"] - row("random", share)["before"]["score"])
            / (values()["whole"] - row("random", share)["before"]["score"])
            < 1
            for share in SHARES
        ),
        "nothing is left of the lead.** After training all weights the loss by importance is no "
        "lower than that of random orders, and by LoRA no interval lies below 0.": lambda: (
            all(lead(share)["loss_before"]["interval"][1] < 0 for share in SHARES)
            and all(
                (after := lead(share)["loss_after"])["difference"] >= 0 > after["interval"][0]
                for share in (0.2, *SHARES)
            )
            and all(lead(share, way="LoRA")["loss_after"]["interval"][1] >= 0 for share in EVERY)
        ),
        "After training all weights: with 40 and 60% removed each random order is worse than "
        "importance before training, and after it as well, by less.": lambda: all(
            max(row("random", share)[when]["runs"]) < row("importance", share)[when]["score"]
            and lead(share)["after"]["difference"] < lead(share)["before"]["difference"]
            for share in SHARES
            for when in ("before", "after")
        ),
        "with 40% removed its lead is smaller than that of importance scored once, and its "
        "interval holds 0.": lambda: (
            (again := lead(0.4, "importance rescored")["after"])["difference"]
            < lead(0.4)["after"]["difference"]
            and again["interval"][0] < 0 < again["interval"][1]
        ),
        "One more epoch raises the loss of the uncut model and of what importance leaves with "
        "40% removed, while they answer as well as before": lambda: all(
            one["after"]["loss"] - one["before"]["loss"] > 0.03
            and abs(one["after"]["score"] - one["before"]["score"]) < 0.002
            for one in (row("uncut", 0.0), row("importance", 0.4))
        ),
        "It shows that one epoch makes up for most of what a random order costs these two "
        "models, and not quite all. The encoder's decision is as close as can be": lambda: all(
            0
            < of(share)["after"]["interval"][0]
            < of(share)["after"]["difference"]
            < of(share)["before"]["difference"] / 2
            for share in SHARES
            for of in (lead, bleu_lead)
        ),
        "**By LoRA** it is open whether the order matters with 20 and 40% removed": lambda: all(
            recovery_word(lead(share, way="LoRA")["after"]["interval"]) == "open"
            for share in (0.2, 0.4)
        ),
        "With 60% it still matters": lambda: (
            recovery_word(lead(0.6, way="LoRA")["after"]["interval"]) == "still matters"
        ),
        "by importance the model ends 0.1 BLEU below the uncut one with 20% of the heads "
        "removed, and 1 BLEU below it with 60%.": lambda: (
            [
                round(100 * (bleu_after("uncut", 0.0) - bleu_after("importance", share)), 1)
                for share in (0.2, 0.6)
            ]
            == [0.1, 1.0]
        ),
        "random orders is below importance after training too, and the loss of the references "
        "says the same, unlike the encoder's.": lambda: all(
            max(bleu_row("random", share)["after"]["runs"]) < bleu_after("importance", share)
            and bleu_lead(share)["loss_after"]["interval"][1] < 0
            for share in EVERY
        ),
        "Importance scored again after each step gives as much, within 0.2 BLEU.": lambda: all(
            abs(bleu_after("importance rescored", share) - bleu_after("importance", share)) < 0.002
            for share in EVERY
        ),
    },
)
