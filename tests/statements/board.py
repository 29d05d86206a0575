"""Page 13."""

import numpy as np

from headprune_lib.replication.claims.others import kept_by_others, others_rows
from headprune_lib.replication.published import five_seeds, masked_tasks, published_orders
from statements import found, on, timings, values

PAGE = "notebooks/13_board.ipynb"

DERIVATIVES = (
    *("importance", "importance unnormalised", "importance rescored", "importance-batch"),
    *("importance-token", "importance-integrated", "importance-bertology", "second-order"),
    *("fisher", "logits-norm"),
)


COSTLY = ("importance-integrated", "second-order", "gates", "greedy")


def area(order):
    return values("which_first", "reviews", "minilm")["orders"][order]["area"]["value"]


def published(who, order):
    return {
        one.task: one.area for one in published_orders() if (one.who, one.order) == (who, order)
    }


def importance_keeps_more(than):
    best, other = published("Silent-Zebra", "importance"), published("HIES 2025", than)
    return all(best[task] > other[task] for task in ("mnli", "sst2"))


def cost(criterion):
    """Forward passes."""
    (row,) = [one for one in timings("criteria") if one["what"] == f"scores by {criterion}"]
    return row["ratio"]


FOUR = ("importance", "importance rescored", "importance-batch", "importance-batch rescored")


def alike():
    """Within two points of one another, and within the width of every interval."""
    orders = values("which_first", "reviews", "minilm")["orders"]
    widths = [np.ptp(orders[one]["area"]["interval"]) for one in FOUR]
    return np.ptp([area(order) for order in FOUR]) < min(0.02, *widths)


STATEMENTS = on(
    PAGE,
    {
        "**Fitted gates change little.**": lambda: (
            abs(area("importance tuned") - area("importance")) < 0.01
        ),
        "On the reviews they lie within two points of one another, less than their intervals "
        "are wide.": alike,
        "importance, of every kind, takes about three forward passes over the same sentences, "
        "and entropy beside it in the same pass adds little. Attention alone takes one pass and "
        "a bit.": lambda: (
            all(2.4 < cost(one) < 3.2 for one in ("importance", "importance-token", "fisher"))
            and cost("importance-entropy") < 1.25 * cost("importance")
            and all(1 < cost(one) < 1.7 for one in ("entropy", "confidence"))
        ),
        "Integrating over the mask and second derivatives take about fifteen, learned gates and "
        "searches hundreds to thousands.": lambda: (
            all(13 < cost(one) < 17 for one in ("importance-integrated", "second-order"))
            and min(cost(one) for one in ("gates", "greedy", "shapley")) > 500
        ),
        "Nothing on this board shows that they pay: integrated importance, second derivatives, "
        "learned gates and the greedy search keep within one point of what importance keeps, "
        "and Shapley values no more than it, on the one model where they were followed.": lambda: (
            all(abs(area(order) - area("importance")) < 0.01 for order in COSTLY)
            and area("shapley") < area("importance")
            and {
                each.task
                for each in found("which_first")
                if {*COSTLY, "shapley"} & {*each.values["orders"]}
            }
            == {"reviews"}
        ),
        "Orders by derivatives lie above random orders, orders by weights or attention alone "
        "below.": lambda: (
            min(map(area, DERIVATIVES))
            > area("random")
            > max(map(area, ("magnitude", "entropy", "entropy-low", "confidence")))
        ),
        "Importance by the authors' own code falls last; entropy alone falls with random "
        "orders.": lambda: (
            importance_keeps_more("importance and entropy")
            and abs(
                published("Guo et al. 2026", "attention entropy")["mnli"]
                - published("Guo et al. 2026", "random")["mnli"]
            )
            < 0.02
        ),
        "over five fine-tunings on MNLI the gain turns into a loss at every share:": lambda: (
            max(one["points"] for one in five_seeds()) < 0
        ),
        "Leaving out WNLI, on which the whole models are worse than one constant answer": lambda: (
            [task.task for task in masked_tasks() if not task.above_chance] == ["WNLI"]
        ),
        "On every other task more is left by importance than under random masks": lambda: all(
            task.ahead_of_random()[0] > 0 for task in masked_tasks() if task.above_chance
        ),
        "On SST-2 they keep more than the mask does": lambda: {
            one.task: one.scores["head_invert"] > one.scores["head"] for one in masked_tasks()
        }["SST-2"],
    },
) + on(
    "notebooks/10_verdicts.ipynb",
    {
        "That is so on CoLA, where it is not met, and where the BERT-base above loses nothing": lambda: (
            {row.setting for row in others_rows() if row.claim == "C3" and row.judged.met is False}
            == {"BERT-base from five seeds, CoLA", "fairseq's IWSLT model"}
            and kept_by_others("cola") > 1
        ),
    },
)
