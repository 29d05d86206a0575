"""Perplexity of a language model without each single head (section 3.2, by perplexity)."""

from __future__ import annotations

from typing import Any, TypedDict

import numpy as np

from headprune_lib.replication.measurements.measurement import Context, Half, Measurement, Runs
from headprune_lib.replication.measurements.perplexity import Statistics, drawn_losses
from headprune_lib.replication.measurements.records import interval_record
from headprune_lib.replication.metrics import MILLINAT
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import LanguageSubject, predicted, whole_thousandths
from headprune_lib.replication.store import OUTCOMES, Measured, Outcomes


class Head(TypedDict):
    """Layer and head from 0, and the loss a token that its absence adds, in nats."""

    layer: int
    head: int
    added: float
    interval: np.ndarray


class Values(TypedDict):
    """``loss`` is that of the uncut model, in nats a token."""

    heads: list[Head]
    loss: float
    tokens: int


def _measure(context: Context, _part: str) -> Measured:
    subject = LanguageSubject.of(context.profile, context.task)
    found = subject.without_each(context.journal)
    return subject.measured(
        {
            "heads": found["heads"],
            "loss_uncut": whole_thousandths(found["loss_uncut"]),
            "loss_change": whole_thousandths(found["loss"] - found["loss_uncut"]),
            "tokens": predicted(subject.swept).astype(np.int16),
        }
    )


def _summarise(_half: Half, outcomes: Outcomes, _runs: Runs, statistics: Statistics) -> Values:
    raw = outcomes[OUTCOMES]
    tokens, change = raw["tokens"].astype(int), raw["loss_change"] / MILLINAT
    drawn = drawn_losses({"": change[None]}, tokens, statistics)[""]
    added, intervals = change.sum(-1) / tokens.sum(), interval_record(drawn).T
    return {
        "heads": [
            {"layer": layer, "head": head, "added": float(added[i]), "interval": intervals[i]}
            for i, (layer, head) in enumerate(raw["heads"].tolist())
        ],
        "loss": float(raw["loss_uncut"].sum() / MILLINAT / tokens.sum()),
        "tokens": int(tokens.sum()),
    }


def _parameters(profile: Profile, _half: Half) -> dict[str, Any]:
    return {"head_tokens": profile.language.head_tokens}


MEASUREMENTS = (
    Measurement(
        "language_heads",
        1,
        {"language": Statistics()},
        _parameters,
        _measure,
        _summarise,
        ("language",),
    ),
)
