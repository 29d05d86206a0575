"""A criterion's scores on any text, where others are made on the sentences of I_h alone."""

from __future__ import annotations

import torch

from headprune_lib.masking import HeadTensors
from headprune_lib.replication.criteria import shown
from headprune_lib.replication.data import Texts
from headprune_lib.replication.engine import run_units
from headprune_lib.replication.models.pretrained import load_tokenizer
from headprune_lib.replication.order_names import NamedOrder, read_name, tokens_of
from headprune_lib.replication.setups import EncoderSubject
from headprune_lib.replication.store import Arrays, Journal


def scored_once(order: str) -> NamedOrder:
    """What an order's name says.

    Raises:
        ValueError: no criterion is called so, or its scores are measured again at each step.
    """
    named = read_name(order)
    if named.rescored:
        raise ValueError(f"{order!r} is scored again at each step; give a criterion scored once")
    return named


def scores_on(
    subject: EncoderSubject, named: NamedOrder, texts: Texts, journal: Journal
) -> HeadTensors:
    """Every head's score on some texts, which the journal knows by their checksum."""

    def measure() -> Arrays:
        eager = EncoderSubject.of(subject.profile, subject.seed, "eager")
        batches = eager.batches(texts).batches
        return named.scores(
            eager.model,
            batches,
            None,
            lambda: tokens_of(load_tokenizer(subject.profile.model)),
        )

    (unit,) = run_units(
        {f"{subject.key} {named.key()} on {texts.sha256[:8]}": measure},
        journal,
        f"{shown(named.criterion.name).label}, {len(texts)} sentences",
    ).values()
    return {"self": torch.from_numpy(unit["self"])}
