"""Page 02."""

from itertools import pairwise

import numpy as np

from headprune_lib.replication.bounds import DELTA
from headprune_lib.replication.claims.verdict import LEAST_POWER
from headprune_lib.replication.published import paper
from statements import found, on, row, values

PAGE = "notebooks/02_all_but_one.ipynb"
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
    shown = MPNET, HELD_12, ("all_but_one", "sst2", "mpnet"), ("all_but_one", "snli", "mpnet")
    return [one for result in shown for one in values(*result)["layers"]]


STATEMENTS = on(
    PAGE,
    {
        "and a result counts from 0.8 on.": lambda: LEAST_POWER == 0.8,
        "The rule says *differs* here. Its power to say the opposite is": lambda: (
            row(*HELD, "C2").one_way
        ),
        "The verdict is taken over the three trainings together, with wider intervals.": lambda: (
            row(*TRANSLATOR, "C2").judged.trainings == 3
        ),
        "the claim is undecided: if layers lose here what the paper's own lose, no test set is large "
        "enough for our rule to say so.": lambda: all(
            row(*one.key, "C2").judged.power < LEAST_POWER for one in found("best_heads")
        ),
        "it says *undecided*. The paper's own criterion, that no layer loses significantly, is not "
        "met.": lambda: (
            (judged := row(*HELD_12, "C2").judged).word == "undecided" and judged.met is False
        ),
        "from the third layer of *enc-dec* attention on, each layer loses more than the one "
        "before, and the last loses most of all 18.": lambda: all(
            grows(side) and deepest_is_the_last_of_enc_dec(side) for side in (0, 1)
        ),
        "They differ in the other kinds: of six layers {glue:text}`n_losing_enc` lose here in "
        "*enc-enc* (the paper: 4) and {glue:text}`n_losing_dec` in *dec-dec* (the paper: 1).": lambda: (
            [len(paper("table5")[kind]["significant"]) for kind in ("enc-enc", "dec-dec")] == [4, 1]
            and losing("enc-enc") != 4
            and losing("dec-dec") != 1
        ),
        "The last layer of *enc-dec* attention loses most each time": lambda: all(
            (worst["kind"], worst["layer"]) == ("enc-dec", 5)
            for one in values(*TRANSLATOR)["further"].values()
            for worst in [min(one["layers"], key=lambda layer: layer["delta"])]
        ),
        "Most points lie inside the band; two intervals in five reach below it.": lambda: (
            0.35 < np.mean([one["interval"][0] < -DELTA for one in twelve_layers()]) < 0.45
            and np.mean([abs(one["delta"]) <= DELTA for one in twelve_layers()]) > 0.5
        ),
    },
)
