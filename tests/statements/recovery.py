"""Page 14."""

from headprune_lib.replication.claims.recovery import WAY, decide, word_of
from headprune_lib.replication.pages.numbers.recovery import lead_of, row_of
from statements import Statement, found, result

PAGE = "notebooks/14_recovery.ipynb"
SHARES = (0.4, 0.6)  # of which something is lost; beside them 0.2
EVERY = (0.2, *SHARES)


def values():
    return result("recovery", "reviews", "minilm").values


def lead(share, order="importance", way=WAY):
    return lead_of(values(), order, share, way)


def row(order, share):
    return row_of(values(), order, share)


STATEMENTS = [
    Statement(
        PAGE,
        "by a hair: of its lead over random orders a fifth is left after one epoch of training.",
        lambda: (
            decide(values()).word == "still matters"
            and 0 < decide(values()).after[1] < 0.001
            and all(
                round(5 * lead(share)["after"]["difference"] / lead(share)["before"]["difference"])
                == 1
                for share in SHARES
            )
        ),
    ),
    Statement(
        PAGE,
        "Random orders recover almost all they had lost.",
        lambda: all(
            0.8
            < (row("random", share)["after"]["score"] - row("random", share)["before"]["score"])
            / (values()["whole"] - row("random", share)["before"]["score"])
            < 1
            for share in SHARES
        ),
    ),
    Statement(
        PAGE,
        "nothing is left of the lead.** After training all weights the loss by importance is no lower than "
        "that of random orders, and by LoRA no interval lies below 0.",
        lambda: (
            all(lead(share)["loss_before"]["interval"][1] < 0 for share in SHARES)
            and all(
                (after := lead(share)["loss_after"])["difference"] >= 0 > after["interval"][0]
                for share in (0.2, *SHARES)
            )
            and all(lead(share, way="LoRA")["loss_after"]["interval"][1] >= 0 for share in EVERY)
        ),
    ),
    Statement(
        PAGE,
        "for the epoch alone might change it. It hardly does.",
        lambda: (
            abs(row("uncut", 0.0)["after"]["score"] - row("uncut", 0.0)["before"]["score"]) < 0.002
        ),
    ),
    Statement(
        PAGE,
        "After training all weights: with 40 and 60% removed each random order is worse than importance "
        "before training, and after it as well, by less.",
        lambda: all(
            max(row("random", share)[when]["runs"]) < row("importance", share)[when]["score"]
            and lead(share)["after"]["difference"] < lead(share)["before"]["difference"]
            for share in SHARES
            for when in ("before", "after")
        ),
    ),
    Statement(
        PAGE,
        "With 20% removed one of the three is better after it.",
        lambda: (
            sum(
                score > row("importance", 0.2)["after"]["score"]
                for score in row("random", 0.2)["after"]["runs"]
            )
            == 1
        ),
    ),
    Statement(
        PAGE,
        "little is lost, and the order hardly matters",
        lambda: (
            word_of(lead(0.2)["after"]["interval"]) == "hardly matters"
            and values()["whole"] - row("random", 0.2)["before"]["score"] < 0.01
        ),
    ),
    Statement(
        PAGE,
        "with 40% removed its lead is smaller than that of importance scored once, and its interval "
        "holds 0.",
        lambda: (
            (again := lead(0.4, "importance rescored")["after"])["difference"]
            < lead(0.4)["after"]["difference"]
            and again["interval"][0] < 0 < again["interval"][1]
        ),
    ),
    Statement(
        PAGE,
        "With 60% removed it keeps more before training, and no more after it.",
        lambda: (
            (again := row("importance rescored", 0.6))["before"]["score"]
            > row("importance", 0.6)["before"]["score"]
            and again["after"]["score"] <= row("importance", 0.6)["after"]["score"]
        ),
    ),
    Statement(
        PAGE,
        "With 20% removed nothing that could be told from 0 is left of either's lead.",
        lambda: all(
            (after := lead(0.2, order)["after"]["interval"])[0] < 0 < after[1]
            for order in ("importance", "importance rescored")
        ),
    ),
    Statement(
        PAGE,
        "One more epoch raises the loss of the uncut model and of what importance leaves with 40% "
        "removed, while they answer as well as before",
        lambda: all(
            one["after"]["loss"] - one["before"]["loss"] > 0.03
            and abs(one["after"]["score"] - one["before"]["score"]) < 0.002
            for one in (row("uncut", 0.0), row("importance", 0.4))
        ),
    ),
    Statement(
        PAGE,
        "It shows that one epoch makes up for most of what a random order costs this model, and not "
        "quite all.",
        lambda: all(
            0
            < lead(share)["after"]["interval"][0]
            < lead(share)["after"]["difference"]
            < lead(share)["before"]["difference"] / 2
            for share in SHARES
        ),
    ),
    Statement(
        PAGE,
        "By LoRA one of the random orders ends above importance with 40% removed. The lead of importance "
        "scored again is the larger one with 20, 40 and 60% removed, by 0.3 points at most; with 20% "
        "removed its interval lies above 0.",
        lambda: (
            sum(
                score > row_of(values(), "importance", 0.4, "LoRA")["after"]["score"]
                for score in row_of(values(), "random", 0.4, "LoRA")["after"]["runs"]
            )
            == 1
            and all(
                0
                < lead(share, "importance rescored", "LoRA")["after"]["difference"]
                - lead(share, way="LoRA")["after"]["difference"]
                < 0.003
                for share in EVERY
            )
            and lead(0.2, "importance rescored", "LoRA")["after"]["interval"][0] > 0
        ),
    ),
    Statement(
        PAGE,
        "**By LoRA** it is open whether the order matters with 20 and 40% removed",
        lambda: all(
            word_of(lead(share, way="LoRA")["after"]["interval"]) == "open" for share in (0.2, 0.4)
        ),
    ),
    Statement(
        PAGE,
        "With 60% it still matters",
        lambda: word_of(lead(0.6, way="LoRA")["after"]["interval"]) == "still matters",
    ),
    Statement(
        PAGE,
        "LoRA with 20 and 60% removed, and in the order of importance scored again, was trained on a GPU, "
        "everything else on CPUs",
        lambda: (
            {
                name
                for name, part in result("recovery", "reviews", "minilm").parts.items()
                if part.provenance["hardware"]["gpu"]
            }
            == {
                f"{order} {share} LoRA"
                for order in ("importance", "random")
                for share in ("20%", "60%")
            }
            | {f"importance rescored {share} LoRA" for share in ("20%", "40%", "60%")}
        ),
    ),
    Statement(
        PAGE,
        "One model, one task, one recipe",
        lambda: [(one.task, one.model) for one in found("recovery")] == [("reviews", "minilm")],
    ),
]
