"""What training again brings back of a language model whose heads were removed from its weights.

The uncut model is trained the same way: what it gains, it gains by seeing this kind of text.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, TypedDict

import numpy as np

from headprune_lib.masking import head_mask
from headprune_lib.replication.engine import run_units
from headprune_lib.replication.measurements.language_curve import (
    PER_GROUP,
    PLAIN,
    first_heads,
    steps_of,
)
from headprune_lib.replication.measurements.measurement import (
    Context,
    Half,
    Measurement,
    Own,
    Runs,
)
from headprune_lib.replication.measurements.perplexity import Statistics, drawn_losses
from headprune_lib.replication.measurements.records import interval_record
from headprune_lib.replication.metrics import MILLINAT
from headprune_lib.replication.models.language import PROJECTIONS, SEED, pruned, tuned
from headprune_lib.replication.models.training import checkpoint_folder
from headprune_lib.replication.order_names import mask_key, read_name
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import LanguageSubject, whole_thousandths
from headprune_lib.replication.store import Arrays, Measured, Outcomes

REMOVED = "removed "


class Recovered(TypedDict):
    """Perplexity after heads were removed, and after training again, with 95% intervals.

    ``share`` of the heads was asked for, ``removed`` counts them; ``parameters`` are those of the
    uncut model, and ``left`` those after the removal.
    """

    share: float
    removed: int
    parameters: int
    left: int
    pruned: float
    pruned_interval: np.ndarray
    tuned: float
    tuned_interval: np.ndarray


class Values(TypedDict):
    """By part, in their order."""

    recovered: list[Recovered]


def _measure(context: Context, part: str) -> Measured:
    subject = LanguageSubject.of(context.profile, context.task)
    steps = steps_of(subject, context.journal, PER_GROUP)
    cut = first_heads(steps, share_in(part))
    mask, gone = head_mask(subject.model, cut), len(cut)

    def measure() -> Arrays:
        model = pruned(subject, mask)
        sizes = [sum(p.numel() for p in one.parameters()) for one in (subject.model, model)]
        before = subject.losses(model)
        name = f"{context.profile.language_model}-{context.task}-{gone}-gone"
        said = [_parameters(context.profile, context.half), mask_key(mask)]
        after = subject.losses(tuned(subject, model, checkpoint_folder(name, said)))
        return {"pruned": before, "tuned": after, "parameters": np.array(sizes)}

    (unit,) = run_units(
        {f"{subject.key} {gone} gone": measure}, context.journal, part, here=True
    ).values()
    return subject.measured(
        {
            "removed": np.array(gone),
            "parameters": unit["parameters"],
            "loss_pruned": whole_thousandths(unit["pruned"]),
            "loss_tuned": whole_thousandths(unit["tuned"]),
            "tokens": subject.tokens.astype(np.int16),
        }
    )


def share_in(part: str) -> float:
    """The share removed that a part's name tells.

    >>> share_in("removed 30%")
    0.3

    Raises:
        ValueError: the name is no such part's.
    """
    percent = part.removeprefix(REMOVED).removesuffix("%")
    if part != f"{REMOVED}{percent}%" or not percent.isdecimal() or int(percent) > 100:
        raise ValueError(f"no part is called {part!r}; give a name such as '{REMOVED}30%'")
    return int(percent) / 100


def _summarise(_half: Half, outcomes: Outcomes, _runs: Runs, statistics: Statistics) -> Values:
    tokens = next(iter(outcomes.values()))["tokens"].astype(int)
    losses = {
        f"{part} {when}": raw[f"loss_{when}"][None, None] / MILLINAT
        for part, raw in outcomes.items()
        for when in ("pruned", "tuned")
    }
    drawn = drawn_losses(losses, tokens, statistics)

    def perplexity(name: str) -> tuple[float, np.ndarray]:
        loss = losses[name].sum() / tokens.sum()
        return float(np.exp(loss)), np.exp(interval_record(drawn[name][:, 0]))

    found: list[Recovered] = []
    for part, raw in outcomes.items():
        (before, before_interval), (after, after_interval) = (
            perplexity(f"{part} {when}") for when in ("pruned", "tuned")
        )
        parameters, left = map(int, raw["parameters"])
        found.append(
            {
                "share": share_in(part),
                "removed": int(raw["removed"]),
                "parameters": parameters,
                "left": left,
                "pruned": before,
                "pruned_interval": before_interval,
                "tuned": after,
                "tuned_interval": after_interval,
            }
        )
    return {"recovered": sorted(found, key=lambda one: one["share"])}


def _parameters(profile: Profile, _half: Half) -> dict[str, Any]:
    return {"tuning": {**asdict(profile.language.tuning), "seed": SEED, "adapted": PROJECTIONS}}


def _parts(profile: Profile, _half: Half, _task: str) -> tuple[str, ...]:
    return tuple(f"{REMOVED}{share:.0%}" for share in profile.language.recovered)


def _own(profile: Profile, _half: Half, part: str) -> Own:
    criterion = read_name(PLAIN).criterion.version
    share_in(part)  # refuses any other name
    return Own(
        {"part": part, "scoring_tokens": profile.language.scoring_tokens, "criterion": criterion}
    )


MEASUREMENTS = (
    Measurement(
        "language_recovery",
        1,
        {"language": Statistics()},
        _parameters,
        _measure,
        _summarise,
        ("language",),
        _parts,
        _own,
    ),
)
