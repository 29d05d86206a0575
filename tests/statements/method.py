"""The page of the method."""

import math

import torch
from transformers import BertConfig, BertModel

from headprune_lib.criteria import CRITERIA
from headprune_lib.replication.bench.encoder import sweep_work
from headprune_lib.replication.claims.verdict import LEAST_POWER
from headprune_lib.replication.stats.bounds import C4_UP_TO, C8_UP_TO, DELTA, DELTA_BLEU, TOLERANCES
from statements import Statement, found, result, values

METHOD = "book/method.md"


def random_orders():
    return {
        (one.model, one.task): len(one.values["curves"]["random"]["runs"])
        / sum(part.startswith("random") for part in one.parts)
        for one in found("pruning_curve")
        if "random" in one.values["curves"]
    }


def tested(measurement, task, model):
    return result(measurement, task, model).n_examples


def sweep_floor():
    """Work of a sweep over that of a plain pass a head; BERT-base's heads in six layers."""
    with torch.device("meta"):
        model = BertModel(BertConfig(num_hidden_layers=6))
    return sweep_work(model) / (6 * 12 * 6)


STATEMENTS = [
    Statement(
        METHOD,
        "| variant | absolute value taken | |---|---| | `example` |",
        lambda: (
            {one.variant for one in CRITERIA.values() if one.variant}
            == {"example", "token", "batch", "bertology", "fisher"}
        ),
    ),
    Statement(
        METHOD,
        "With six layers of equal cost and twelve heads each, 0.54 of the plain sweep's work remains.",
        lambda: math.isclose(sweep_floor(), 0.54, abs_tol=0.005),
    ),
    Statement(
        METHOD,
        "ten permutations (three a training for translation, MPNet and the public benchmarks)",
        lambda: all(
            orders == (10 if of == ("minilm", "reviews") else 3)
            for of, orders in random_orders().items()
        ),
    ),
    Statement(
        METHOD,
        "the share that *goes* at a loss of 1%, 2% or 5%",
        lambda: TOLERANCES == (0.01, 0.02, 0.05),
    ),
    Statement(
        METHOD,
        "for F1 on MRPC 0.80, for Matthews correlation and BLEU 0.",
        lambda: (
            round(values("pruning_curve", "mrpc", "mpnet")["chance"], 2) == 0.80
            and values("pruning_curve", "cola", "mpnet")["chance"] == 0
            and values("pruning_curve", "enfr", "post-norm")["chance"] == 0
        ),
    ),
    Statement(
        METHOD,
        "MPNet makes leak-free choices on 1,000 training sentences, not 2,000.",
        lambda: (
            values("best_heads", "sst2", "mpnet")["n_selection"] == 1000
            and values("best_heads", "reviews", "minilm")["n_selection"] == 2000
        ),
    ),
    Statement(
        METHOD,
        "the interval rules out a loss of $\\delta = 1$ accuracy point or more",
        lambda: DELTA == 0.01,
    ),
    Statement(METHOD, "$\\delta$ is 0.5 BLEU.", lambda: DELTA_BLEU == 0.5),
    Statement(
        METHOD,
        "over 0 to 50% removed for C8, over everything beside it. Kinds of attention (C4) are compared "
        "by the share of BLEU kept, over 0 to 90% of the kind.",
        lambda: (C8_UP_TO, C4_UP_TO) == (0.5, 0.9),
    ),
    Statement(
        METHOD,
        "A result of less than 0.8 is shown and does not count.",
        lambda: LEAST_POWER == 0.8,
    ),
    Statement(
        METHOD,
        "1,748 to report (`test`). Table 1, Table 5 and Figure 3a take all of `test`; the other sweeps "
        "its first 512",
        lambda: all(
            tested(name, "enfr", "post-norm") == n
            for name, n in (
                ("one_head", 1748),
                ("best_heads", 1748),
                ("pruning_curve", 1748),
                ("all_but_one", 512),
                ("pruning_by_kind", 512),
            )
        ),
    ),
]
