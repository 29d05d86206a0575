"""Score without each single head (section 3.2: Table 1, Figures 1a and 1b).

The paper shows the encoder's own heads of a translator; those of the other two kinds are measured too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypedDict

import numpy as np

from headprune_lib.ablation import one_head_masks
from headprune_lib.replication.measurements import accuracy, bleu
from headprune_lib.replication.measurements.measurement import (
    HALVES,
    Context,
    Half,
    Measurement,
    Runs,
)
from headprune_lib.replication.measurements.removable import Draws, Removable, removable_record
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import EncoderSubject, TranslationSubject
from headprune_lib.replication.store import OUTCOMES, Arrays, Measured, Outcomes
from headprune_lib.replication.store.heads import heads_array, rows_of


@dataclass(frozen=True)
class Statistics:
    """Constants of the tests of every head, and of the share of heads that is removable."""

    tests: accuracy.Tests | bleu.Tests
    draws: Draws = field(default_factory=Draws)


class Values(TypedDict, total=False):
    """``counts`` and ``removable`` are of all heads, for a translator by kind.

    ``truncated`` counts long sentences.
    """

    baseline: dict[str, Any]
    heads: list[accuracy.Effect] | list[bleu.Effect]
    counts: accuracy.Counts | dict[str, bleu.Counts]
    removable: Removable | dict[str, Removable]
    delta_tolerated: float
    truncated: int


def _measure(context: Context, _part: str) -> Measured:
    profile = context.profile
    if context.half == "encoder":
        subject = EncoderSubject.of(profile)
        return subject.measured(
            subject.sweep("one head", subject.test, context.journal, profile.task)
        )
    subject = TranslationSubject.of(profile, context.task)
    masks, pairs = one_head_masks(subject.model), subject.headline
    return subject.measured(
        subject.sweep_heads(pairs, masks, context.journal, "one head cut"), len(pairs)
    )


def _summarise(half: Half, outcomes: Outcomes, _runs: Runs, statistics: Statistics) -> Values:
    raw, effects = outcomes[OUTCOMES], bleu if half == "translation" else accuracy
    tests = statistics.tests
    records = effects.effect_records(raw, tests)
    found = {
        "baseline": effects.baseline(raw, tests),
        "heads": records,
        "counts": effects.counts(records, tests),
        "removable": _removable(half, raw, records, statistics),
        "delta_tolerated": tests.delta,
    }
    return found | ({"truncated": int(raw["truncated"])} if "truncated" in raw else {})


def _removable(half: Half, raw: Arrays, records: list, statistics: Statistics) -> Any:
    """Of all heads of an encoder, of a translator's by kind."""
    effects, draws = bleu if half == "translation" else accuracy, statistics.draws
    drawn = effects.resampled(raw, draws.resamples, draws.seed)

    def of(kind: str) -> Removable:
        own = [record for record in records if record["kind"] == kind]
        change = np.array([record["delta"] for record in own])
        low, high = np.array([record["interval"] for record in own]).T
        # records are grouped by kind, outcomes as the model has its layers
        heads = heads_array((kind, record["layer"], record["head"]) for record in own)
        rows = rows_of(heads, raw["heads"])
        return removable_record(change, low, high, drawn[:, rows], statistics.tests.delta, draws)

    kinds = list(dict.fromkeys(record["kind"] for record in records))
    return of(kinds[0]) if half == "encoder" else {kind: of(kind) for kind in kinds}


def _parameters(profile: Profile, half: Half) -> dict[str, Any]:
    return (
        {"n_examples": profile.n_examples}
        if half == "encoder"
        else {"n_headline": profile.n_headline}
    )


ONE_HEAD = Measurement(
    "one_head",
    1,
    {"encoder": Statistics(accuracy.Tests()), "translation": Statistics(bleu.Tests())},
    _parameters,
    _measure,
    _summarise,
    HALVES,
)
MEASUREMENTS = (ONE_HEAD,)
