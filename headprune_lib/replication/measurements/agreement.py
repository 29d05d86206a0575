"""Do fine-tunings that differ in their seed alone agree on which heads matter? Not in the paper."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import torch

from headprune_lib.replication.measurements.measurement import (
    Context,
    Half,
    Measurement,
    Own,
    Runs,
)
from headprune_lib.replication.measurements.records import correlation_record
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import EncoderSubject
from headprune_lib.replication.store import OUTCOMES, Measured, Outcomes
from headprune_lib.scoring import normalize_l2
from headprune_lib.selection import rank_heads


@dataclass(frozen=True)
class Statistics:
    """``least``: how many of the least important heads are compared as sets."""

    least: int = 10
    resamples: int = 10_000
    seed: int = 0


class Values(TypedDict):
    """``scores`` (seed, layer, head), normalised by layer as the paper does; ``pairs`` of seeds."""

    scores: np.ndarray
    pairs: list[dict[str, Any]]
    mean_spearman: float | None
    shared_least_by_chance: float


def _measure(context: Context, _part: str) -> Measured:
    profile = context.profile
    subjects = [EncoderSubject.of(profile, seed) for seed in profile.seeds]
    scores = np.stack(
        [
            subject.importance(context.journal, normalize=None)["self"].numpy()
            for subject in subjects
        ]
    )
    first = subjects[0]
    return first.measured(
        {"scores": scores},
        dataset=f"{profile.task}/train",
        n_examples=len(first.scoring),
        metric="importance",
        unit="nats per unit of the gate",
        runs=[one.run for one in subjects],
    )


def _summarise(_half: Half, outcomes: Outcomes, all_runs: Runs, statistics: Statistics) -> Values:
    raw, runs = outcomes[OUTCOMES], all_runs[OUTCOMES]
    normalised = [normalize_l2({"self": torch.from_numpy(plain)}) for plain in raw["scores"]]
    scores = np.stack([each["self"].numpy() for each in normalised])
    flat = scores.reshape(len(scores), -1)
    least = [set(rank_heads(each)[: statistics.least]) for each in normalised]
    pairs = []
    for i, j in itertools.combinations(range(len(flat)), 2):
        rank = correlation_record(
            flat[i], flat[j], "spearman", statistics.resamples, statistics.seed
        )
        pairs.append(
            {
                "seeds": [runs[i]["seed"], runs[j]["seed"]],
                "pearson": correlation_record(
                    flat[i], flat[j], "pearson", statistics.resamples, statistics.seed
                )["r"],
                "spearman": rank["r"],
                "spearman_interval": rank["interval"],
                "shared_least": len(least[i] & least[j]),
            }
        )
    return {
        "scores": scores,
        "pairs": pairs,
        "mean_spearman": np.mean([pair["spearman"] for pair in pairs]) if pairs else None,
        "shared_least_by_chance": statistics.least**2 / flat.shape[1],
    }


def _parameters(profile: Profile, _half: Half) -> dict[str, Any]:
    return {"n_scoring": profile.n_scoring}


def _own(profile: Profile, _half: Half, _part: str) -> Own:
    return Own(seeds=tuple(profile.seeds))


MEASUREMENTS = (
    Measurement(
        "agreement", 1, {"encoder": Statistics()}, _parameters, _measure, _summarise, own=_own
    ),
)
