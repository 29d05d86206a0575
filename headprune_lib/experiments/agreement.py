"""Do fine-tunings that differ in their seed alone agree on which heads matter? Not in the paper."""

from __future__ import annotations

import itertools

import numpy as np
import torch

from headprune_lib.experiments.artifact import Artifact, Get
from headprune_lib.experiments.iterative import importance
from headprune_lib.experiments.outcomes import Setting, runs_of
from headprune_lib.experiments.records import correlation_record
from headprune_lib.journal import Arrays, Journal
from headprune_lib.orders import prune_order
from headprune_lib.profiles import Profile
from headprune_lib.results import Measurement
from headprune_lib.scoring import normalize_l2

_RESAMPLES, _SEED = 10_000, 0
LEAST = 10
"""How many of the least important heads are compared as sets."""


def _measure(profile: Profile, journal: Journal, _get: Get) -> Measurement:
    settings = [Setting.of(profile, seed) for seed in profile.seeds]
    scores = np.stack([importance(setting, journal, normalize=None)["self"].numpy()
                       for setting in settings])
    return Measurement(
        {"scores": scores}, runs_of(settings), profile.model, f"{profile.task}/train",
        len(settings[0].scoring), "importance", "nats per unit of the gate",
        {f"seed {setting.seed}": setting.weights_sha256 for setting in settings})


def _summarise(raw: Arrays, runs: list[dict]) -> dict:
    """``scores`` (seed, layer, head), normalised by layer as the paper does, and each pair's r."""
    normalised = [normalize_l2({"self": torch.from_numpy(plain)}) for plain in raw["scores"]]
    scores = np.stack([each["self"].numpy() for each in normalised])
    flat = scores.reshape(len(scores), -1)
    least = [set(prune_order(each)[:LEAST]) for each in normalised]
    pairs = []
    for i, j in itertools.combinations(range(len(flat)), 2):
        rank = correlation_record(flat[i], flat[j], "spearman", _RESAMPLES, _SEED)
        pairs.append({
            "seeds": [runs[i]["seed"], runs[j]["seed"]],
            "pearson": correlation_record(flat[i], flat[j], "pearson", _RESAMPLES, _SEED)["r"],
            "spearman": rank["r"],
            "spearman_interval": rank["interval"],
            "shared_least": len(least[i] & least[j]),
        })
    return {
        "scores": scores,
        "pairs": pairs,
        "mean_spearman": np.mean([pair["spearman"] for pair in pairs]) if pairs else None,
        "shared_least_by_chance": LEAST**2 / flat.shape[1],
    }


ARTIFACTS = (
    Artifact("agreement", 1, 1,
             lambda profile: {"n_scoring": profile.n_scoring, "seeds": profile.seeds},
             _measure, _summarise, all_seeds=True),
)
