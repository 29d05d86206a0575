"""Page 02."""

from itertools import pairwise

import numpy as np

from headprune_lib.replication.claims.rules.single_heads import C2_LAYERS, C2_PAPER
from headprune_lib.replication.claims.verdict import LEAST_POWER
from headprune_lib.replication.published import paper
from headprune_lib.replication.stats.bounds import DELTA, DELTA_BLEU
from statements import Statement, row, values

PAGE = "notebooks/02_all_but_one.ipynb"
OURS = ("best_heads", "reviews", "minilm")
MPNET = ("best_heads", "sst2", "mpnet")
HELD = ("best_heads", "snli-held", "minilm")
HELD_12 = ("best_heads", "snli-held", "mpnet")
TRANSLATOR = ("best_heads", "enfr", "post-norm")


def deltas(kind):
    """BLEU lost in each layer of a kind: here, and in the paper."""
    rows = [one for one in values(*TRANSLATOR)["layers"] if one["kind"] == kind]
    ours = [one["delta"] for one in sorted(rows, key=lambda one: one["layer"])]
    return ours, paper("table5")[kind]["delta_bleu"]


def losing(kind):
    rows = [one for one in values(*TRANSLATOR)["layers"] if one["kind"] == kind]
    return sum(one["delta"] < 0 and one["p"] < 0.01 for one in rows)


def deepest_is_the_last_of_enc_dec(side):
    every = {kind: deltas(kind)[side] for kind in ("enc-enc", "enc-dec", "dec-dec")}
    return min(min(one) for one in every.values()) == every["enc-dec"][-1]


def grows(side):
    along = deltas("enc-dec")[side][1:]  # the third layer against the second, and so on
    return all(later < earlier for earlier, later in pairwise(along))


def twelve_layers():
    """The layers that Figure S2 draws, of both ways to choose a head."""
    shown = (
        MPNET,
        HELD_12,
        ("all_but_one", "sst2", "mpnet"),
        ("all_but_one", "snli", "mpnet"),
    )
    return [one for result in shown for one in values(*result)["layers"]]


STATEMENTS = [
    Statement(
        PAGE,
        "The verdict is taken over the three trainings together, with wider intervals.",
        lambda: row(*TRANSLATOR, "C2").judged.trainings == 3,
    ),
    Statement(
        PAGE,
        "the claim is undecided: if layers lose here what the paper's own lose, no test set is large "
        "enough for our rule to say so.",
        lambda: all(
            row(*one, "C2").judged.power < LEAST_POWER
            for one in (OURS, MPNET, HELD, HELD_12, TRANSLATOR)
        ),
    ),
    Statement(
        PAGE,
        "it says *undecided*. The paper's own criterion,\nthat no layer loses significantly, is not met.",
        lambda: (judged := row(*HELD_12, "C2").judged).word == "undecided" and judged.met is False,
    ),
    Statement(
        PAGE,
        "The rule says *differs* here. Its power to say the opposite is",
        lambda: row(*HELD, "C2").one_way,
    ),
    Statement(
        PAGE,
        "one head is *enough*. Where it lies below, one head is *not enough*.",
        lambda: (DELTA, DELTA_BLEU) == (0.01, 0.5),
    ),
    Statement(
        PAGE,
        "Our rule for C2 asks that one head be enough in 80% of the layers.",
        lambda: C2_LAYERS["encoder"] == 0.8,
    ),
    Statement(
        PAGE,
        "this test set is too small for it.",
        lambda: row(*OURS, "C2").judged.power < LEAST_POWER,
    ),
    Statement(
        PAGE,
        "In the paper no layer of BERT loses significantly, and half of the translation "
        "model's layers do.",
        lambda: (
            not paper("table6")["significant"]
            and len(paper("table6")["delta_accuracy_percent"]) == 12
            and min(paper("table6")["delta_accuracy_percent"]) == -0.96
        ),
    ),
    Statement(PAGE, "and a result counts from 0.8 on.", lambda: LEAST_POWER == 0.8),
    Statement(
        PAGE,
        "In the paper 9 of 18 layers lose significantly.",
        lambda: sum(len(table["significant"]) for table in paper("table5").values()) == 9,
    ),
    Statement(
        PAGE,
        "In the paper it is in the same layer, −18.89 BLEU.",
        lambda: (
            deltas("enc-dec")[1][-1] == -18.89
            and deepest_is_the_last_of_enc_dec(0)
            and deepest_is_the_last_of_enc_dec(1)
        ),
    ),
    Statement(
        PAGE,
        "from the third layer of *enc-dec* attention on, each layer loses more than the one "
        "before, and the last loses most of all 18.",
        lambda: all(grows(side) and deepest_is_the_last_of_enc_dec(side) for side in (0, 1)),
    ),
    Statement(
        PAGE,
        "They differ in the other kinds: of six layers {glue:text}`n_losing_enc` lose here in "
        "*enc-enc* (the paper: 4) and {glue:text}`n_losing_dec` in *dec-dec* (the paper: 1).",
        lambda: (
            [len(paper("table5")[kind]["significant"]) for kind in ("enc-enc", "dec-dec")] == [4, 1]
            and losing("enc-enc") != 4
            and losing("dec-dec") != 1
        ),
    ),
    Statement(
        PAGE,
        "**Trained again**, twice, by the same recipe and with heads chosen anew",
        lambda: (
            {*values(*TRANSLATOR)["further"]} == {"training 2", "training 3"}
            and all(one["chosen_on"] == "valid" for one in values(*TRANSLATOR)["further"].values())
        ),
    ),
    Statement(
        PAGE,
        "The last layer of *enc-dec* attention loses most each time",
        lambda: all(
            (worst["kind"], worst["layer"]) == ("enc-dec", 5)
            for one in values(*TRANSLATOR)["further"].values()
            for worst in [min(one["layers"], key=lambda layer: layer["delta"])]
        ),
    ),
    Statement(
        PAGE,
        "The rule asks for 40% of a translator's layers, since half of them lose in the paper.",
        lambda: C2_LAYERS["translation"] == 0.4 and C2_PAPER["translation"] == 0.5,
    ),
    Statement(
        PAGE,
        "these verses are too few for it.",
        lambda: row(*TRANSLATOR, "C2").judged.power < LEAST_POWER,
    ),
    Statement(
        PAGE,
        "Most points lie inside the band; two intervals in five reach below it.",
        lambda: (
            0.35 < np.mean([one["interval"][0] < -DELTA for one in twelve_layers()]) < 0.45
            and np.mean([abs(one["delta"]) <= DELTA for one in twelve_layers()]) > 0.5
        ),
    ),
    Statement(
        PAGE,
        "and not enough in {glue:text}`lacking_held12`; the rest stay open",
        lambda: any(
            one["interval"][0] < -DELTA <= one["interval"][1] for one in values(*HELD_12)["layers"]
        ),
    ),
    Statement(
        PAGE,
        "MiniLM has six layers, so each does",
        lambda: len(values(*OURS)["layers"]) == 6,
    ),
    Statement(
        PAGE,
        "the number of layers that lose significantly is {glue:text}`lost12`, as in the paper.",
        lambda: row(*MPNET, "C2").judged.met is True and len(values(*MPNET)["layers"]) == 12,
    ),
    Statement(
        PAGE,
        "It must rule out a loss of a point, and that takes a larger test set",
        lambda: row(*MPNET, "C2").judged.power < LEAST_POWER,
    ),
]
