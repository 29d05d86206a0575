"""What do the heads look at that go first? Not in the paper."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor

from headprune_lib.attention import Weights, entropies, mass_at, mass_on
from headprune_lib.criteria.attention import means_over_queries
from headprune_lib.replication.engine import run_units
from headprune_lib.replication.measurements.measurement import (
    Context,
    Half,
    Measurement,
    Runs,
)
from headprune_lib.replication.measurements.records import (
    Correlation,
    correlation_record,
    interval_record,
)
from headprune_lib.replication.models.pretrained import load_tokenizer
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import EncoderSubject
from headprune_lib.replication.stats import bootstrap_indices
from headprune_lib.replication.store import OUTCOMES, Arrays, Measured, Outcomes
from headprune_lib.scoring import normalize_l2
from headprune_lib.selection import prune_schedule, rank_heads

OFFSETS = {"previous": -1, "same": 0, "next": 1}
"""Places beside a query."""
ROLES = ("entropy", "place", "special", "layer")
"""What is said of a head: entropy of its attention; the largest of its mean weights on the previous,
the same and the next token; the weight on special tokens; its layer, from 1.
"""
ORDERS = ("importance", "importance unnormalised")


@dataclass(frozen=True)
class Statistics:
    """Steps in which heads go, and resamples over heads."""

    steps: int = 10
    resamples: int = 10_000
    seed: int = 0


class Step(TypedDict):
    """The heads that go in one step: how many, and the mean of a role with its interval."""

    n: int
    mean: float
    interval: np.ndarray


class Order(TypedDict):
    """By role: step after step, and the rank correlation with the place in the order."""

    steps: dict[str, list[Step]]
    ranks: dict[str, Correlation]


class Values(TypedDict):
    """``heads``: a record a head; ``means`` of all heads by role; by order of removal."""

    heads: list[dict[str, Any]]
    means: dict[str, float]
    orders: dict[str, Order]


def _measure(context: Context, _part: str) -> Measured:
    subject = EncoderSubject.of(context.profile)
    special = load_tokenizer(context.profile.model).all_special_ids
    wanted = statistics_of(special)

    def measure() -> Arrays:
        eager = EncoderSubject.of(context.profile, subject.seed, "eager")
        batches = eager.batches(eager.scoring).batches
        found = means_over_queries(eager.model, batches, [*wanted.values()])
        return {name: one["self"].numpy() for name, one in zip(wanted, found, strict=True)}

    (raw,) = run_units(
        {f"{subject.key} roles of heads": measure}, context.journal, "what heads look at"
    ).values()
    plain = subject.importance(context.journal, normalize=None)["self"].numpy()
    return subject.measured(
        {**raw, "importance": plain},
        dataset=f"{context.profile.task}/train",
        n_examples=len(subject.scoring),
        metric="attention",
        unit="share of the weight",
    )


def statistics_of(
    special: Collection[int],
) -> dict[str, Callable[[Weights], tuple[Tensor, Tensor]]]:
    """What is measured of a head's weights; ``special``: ids of special tokens."""
    return {
        "entropy": entropies,
        "entropy words": partial(entropies, leave_out=special),
        "special": partial(mass_on, ids=special),
        **{name: partial(mass_at, offset=offset) for name, offset in OFFSETS.items()},
    }


# --- what it is -----------------------------------------------------------------------------------


def _summarise(_half: Half, outcomes: Outcomes, _runs: Runs, statistics: Statistics) -> Values:
    raw = outcomes[OUTCOMES]
    roles = _roles(raw)
    plain = {"self": torch.from_numpy(raw["importance"])}
    scores = {"importance": normalize_l2(plain), "importance unnormalised": plain}
    return {
        "heads": [
            {
                "layer": layer,
                "head": head,
                **{name: float(values[layer, head]) for name, values in raw.items()},
            }
            for layer, head in np.ndindex(raw["importance"].shape)
        ],
        "means": {name: float(values.mean()) for name, values in roles.items()},
        "orders": {
            name: _order([head[1:] for head in rank_heads(scores[name])], roles, statistics)
            for name in ORDERS
        },
    }


def _roles(raw: Arrays) -> dict[str, np.ndarray]:
    """(layer, head) of each of ``ROLES``."""
    layers = np.arange(1, 1 + len(raw["importance"]))[:, None]
    return {
        "entropy": raw["entropy"],
        "place": np.max([raw[name] for name in OFFSETS], axis=0),
        "special": raw["special"],
        "layer": np.broadcast_to(layers, raw["importance"].shape).astype(float),
    }


def _order(
    heads: list[tuple[int, int]], roles: Mapping[str, np.ndarray], statistics: Statistics
) -> Order:
    ends = prune_schedule(len(heads), statistics.steps)
    places = tuple(np.array(heads).T)
    ordered = {name: values[places] for name, values in roles.items()}
    return {
        "steps": {
            name: [
                _step(values[start:end], statistics)
                for start, end in itertools.pairwise(ends)
                if end > start
            ]
            for name, values in ordered.items()
        },
        "ranks": {
            name: correlation_record(
                np.arange(len(values), dtype=float),
                values,
                "spearman",
                statistics.resamples,
                statistics.seed,
            )
            for name, values in ordered.items()
        },
    }


def _step(values: np.ndarray, statistics: Statistics) -> Step:
    drawn = values[bootstrap_indices(len(values), statistics.resamples, statistics.seed)]
    interval = interval_record(drawn.mean(1))
    return {"n": len(values), "mean": float(values.mean()), "interval": interval}


def _parameters(profile: Profile, _half: Half) -> dict[str, Any]:
    return {"n_scoring": profile.n_scoring}


MEASUREMENTS = (
    Measurement("head_roles", 1, {"encoder": Statistics()}, _parameters, _measure, _summarise),
)
