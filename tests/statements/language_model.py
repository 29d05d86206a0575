"""Page 12."""

import numpy as np

from headprune_lib.replication.claims import questions
from statements import on, result

PAGE = "notebooks/12_language_model.ipynb"


def curve(order):
    return np.array(values()["curves"][order]["mean"])


def values():
    return result("language_curve", "web", "smollm2").values


def heads():
    return result("language_heads", "web", "smollm2").values["heads"]


def beside(order):
    """The paper's order and another, at every share but 0."""
    return curve("importance")[1:], curve(order)[1:]


def random_runs():
    return np.array(values()["curves"]["random"]["runs"])[:, 1:]


SHARES = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5]


def recovered():
    return result("language_recovery", "web", "smollm2").values["recovered"]


def added():
    """Loss a token without each head, with its layer from 1; the largest first."""
    return sorted(((one["added"], one["layer"] + 1) for one in heads()), reverse=True)


def on_reviews(order):
    return np.array(result("language_curve", "reviews", "smollm2").values["curves"][order]["mean"])


def answers():
    found = [result("language_curve", text, "smollm2").values for text in ("reviews", "web")]
    return [questions.redundancy(one) for one in found]


STATEMENTS = on(
    PAGE,
    {
        "A fifth of its heads can go at a small cost, half of them cannot. By our rule the "
        "paper's redundancy is there on one of two texts, and narrowly not on the other.": lambda: (
            [one.answer for one in answers()] == ["there", "not there"]
            and all(0.93 < one.kept < 0.97 for one in answers())
            and all(
                np.exp(loss("importance")[[0, -1]] @ [-1, 1]) > 2 for loss in (curve, on_reviews)
            )
        ),
        "On review sentences the order without it is better at every share,": lambda: bool(
            (on_reviews("importance unnormalised") < on_reviews("importance"))[1:].all()
        ),
        "Half of the heads add less than 0.006 nats.": lambda: (
            0.005 < np.median([loss for loss, _ in added()]) < 0.006
        ),
        "The four that matter most all lie in layer 2, and the absence of the first of them "
        "alone raises perplexity by almost half.": lambda: (
            [layer for _, layer in added()[:4]] == [2] * 4 and 1.45 < np.exp(added()[0][0]) < 1.5
        ),
        "most of what it cost comes back, not all.": lambda: (
            [one["share"] for one in recovered()] == [0.0, 0.3]
            and 1.05
            < recovered()[1]["tuned"] / recovered()[0]["tuned"]
            < (recovered()[1]["pruned"] / recovered()[0]["pruned"]) ** 0.5
        ),
        "in the mean of five random ones, each of which is worse at every share.": lambda: (
            random_runs().shape == (5, len(SHARES))
            and bool((random_runs() > curve("importance")[1:]).all())
        ),
        "On the book the paper's division costs a little while a tenth of the heads goes, and "
        "pays after that.": lambda: (
            values()["shares"][1:] == SHARES
            and [bool(a > b) for a, b in zip(*beside("importance unnormalised"), strict=True)]
            == [True, True, False, False, False, False]
        ),
        "Whole groups cost little more than single heads, up to a fifth.": lambda: all(
            1 < np.exp(more) < 1.05
            for more in (
                curve("importance unnormalised whole groups") - curve("importance unnormalised")
            )[1:4]
        ),
        "Equally many heads of each group cost more.": lambda: bool(
            (
                curve("importance unnormalised per group")[1:]
                > curve("importance unnormalised whole groups")[1:]
            ).all()
        ),
        "With the most important heads first the first twentieth nearly triples it.": lambda: (
            2.7 < np.exp(curve("importance reversed")[1] - curve("importance")[0]) < 3
        ),
        "Attention entropy is a better order than chance, and from a tenth of the heads on a "
        "worse one than importance.": lambda: (
            bool((curve("entropy")[2:] > curve("importance")[2:]).all())
            and bool((curve("entropy")[1:] < random_runs().min(0)).all())
        ),
    },
)
