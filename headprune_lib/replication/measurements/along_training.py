"""Figure 5 (section 6): what pruning costs, and how uneven importance is, along trainings.

A training is a part of the result, so that each can be measured by itself. Checkpoints are matched
to the paper's by the share of the final BLEU that they have reached, not by their epoch: two models
learn at different speeds. Where weights were kept more often, the untrained model, every third
epoch and the last stand beside them. Ratios of BLEU mean little near 0, so the teacher-forced loss
of the references is measured too.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from headprune_lib.replication.bounds import C5_REMOVED
from headprune_lib.replication.measurements.checkpoints import chosen, measured_at, points_of
from headprune_lib.replication.measurements.dynamics import (
    SHARED,
    TRAINING,
    Statistics,
    Values,
    seed_in,
    values_of,
)
from headprune_lib.replication.measurements.measurement import (
    Context,
    Half,
    Measurement,
    Own,
    Runs,
)
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import TranslationSubject
from headprune_lib.replication.store import Arrays, Measured, Outcomes


def _measure(context: Context, part: str) -> Measured:
    profile, task, seed = context.profile, context.task, seed_in(part)
    profile.check_training(task, seed)
    wanted = profile.checkpoints[profile.model_of(task)]
    points = chosen(points_of(context, seed, wanted.within), wanted)
    found = []
    for point in points:
        subject = TranslationSubject.of(profile, task, seed, **point.kept)
        found.append(measured_at(subject, wanted, context.journal))
    raw: Arrays = {
        name: found[0][name] if name in SHARED else np.stack([one[name] for one in found])
        for name in found[0]
    }
    raw |= {
        "updates": np.array([point.updates for point in points]),
        "epochs": np.array([point.epoch for point in points]),
        "validation_bleu": np.array([point.bleu for point in points]),
        "shares": np.arange(profile.steps + 1) / profile.steps,
    }
    return subject.measured(raw, len(raw["reference_lengths"]))


def _summarise(_half: Half, outcomes: Outcomes, _runs: Runs, statistics: Statistics) -> Values:
    return values_of(outcomes, statistics)


def _parameters(profile: Profile, _half: Half) -> dict[str, Any]:
    return {"n_verses": profile.n_verses, "steps": profile.steps}


def _parts(profile: Profile, _half: Half, task: str) -> tuple[str, ...]:
    return tuple(f"{TRAINING}{seed}" for seed in profile.trainings(task))


def _own(profile: Profile, _half: Half, part: str) -> Own:
    """A training's seed, which of its checkpoints are measured, and in which orders."""
    wanted = profile.checkpoints[profile.model_of(profile.training_task)]
    several = wanted.unnormalised or wanted.random_orders
    removed = {"removed": C5_REMOVED} if several else {}
    described = asdict(wanted)
    for name in ("n_verses", "epochs"):
        if not described[name]:  # as the results of before there was a choice
            del described[name]
    return Own({"checkpoints": described, **removed}, seeds=(seed_in(part),))


MEASUREMENTS = (
    Measurement(
        "along_training",
        3,
        {"translation": Statistics()},
        _parameters,
        _measure,
        _summarise,
        ("translation",),
        _parts,
        _own,
    ),
)
