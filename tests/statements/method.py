"""The page of how we judged."""

import math

import torch
from transformers import BertConfig, BertModel

from headprune_lib.replication.bench.encoder import sweep_work
from headprune_lib.replication.claims.verdict import LEAST_POWER
from statements import on

METHOD = "book/rules.md"


def sweep_floor():
    """Work of a sweep over that of a plain pass a head; BERT-base's heads in six layers."""
    with torch.device("meta"):
        model = BertModel(BertConfig(num_hidden_layers=6))
    return sweep_work(model) / (6 * 12 * 6)


STATEMENTS = on(
    METHOD,
    {
        "A result of less than 0.8 is shown and does not count.": lambda: LEAST_POWER == 0.8,
        "with six layers of equal cost and twelve heads each, 0.54 of the plain sweep's work "
        "remains.": lambda: math.isclose(sweep_floor(), 0.54, abs_tol=0.005),
    },
)
