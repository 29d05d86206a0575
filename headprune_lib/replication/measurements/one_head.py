"""Score without each single head (section 3.2: Table 1, Figures 1a and 1b).

The paper shows the encoder's own heads of a translator; those of the other two kinds are measured too.
"""

from __future__ import annotations

from typing import Any, TypedDict

from headprune_lib.ablation import one_head_masks
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.measurements import accuracy, bleu
from headprune_lib.replication.measurements.measurement import (
    HALVES,
    Context,
    Half,
    Measurement,
    Runs,
)
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import OUTCOMES, Measured, Outcomes
from headprune_lib.replication.translation.subject import TranslationSubject


class Values(TypedDict, total=False):
    """``counts`` are of all heads, for a translator by kind; ``truncated`` counts long sentences."""

    baseline: dict[str, Any]
    heads: list[accuracy.Effect] | list[bleu.Effect]
    counts: accuracy.Counts | dict[str, bleu.Counts]
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


def _summarise(half: Half, outcomes: Outcomes, _runs: Runs, statistics: Any) -> Values:
    raw, effects = outcomes[OUTCOMES], bleu if half == "translation" else accuracy
    records = effects.effect_records(raw, statistics)
    found = {
        "baseline": effects.baseline(raw, statistics),
        "heads": records,
        "counts": effects.counts(records, statistics),
        "delta_tolerated": statistics.delta,
    }
    return found | ({"truncated": int(raw["truncated"])} if "truncated" in raw else {})


def _parameters(profile: Profile, half: Half) -> dict[str, Any]:
    return (
        {"n_examples": profile.n_examples}
        if half == "encoder"
        else {"n_headline": profile.n_headline}
    )


ONE_HEAD = Measurement(
    "one_head",
    1,
    {"encoder": accuracy.Tests(), "translation": bleu.Tests()},
    _parameters,
    _measure,
    _summarise,
    HALVES,
)
MEASUREMENTS = (ONE_HEAD,)
