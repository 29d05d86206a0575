"""What do the heads that are removed first attend to? Not in the paper."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from headprune_lib.replication.lazy import attention, criteria, scoring, selection, torch
from headprune_lib.replication.measurements.base import Constants, Context, measurement
from headprune_lib.replication.measurements.estimates import correlation_record, interval_record
from headprune_lib.replication.models.pretrained import load_tokenizer
from headprune_lib.replication.stats import bootstrap_indices
from headprune_lib.replication.store import Arrays, Measured

OFFSETS = {"previous": -1, "same": 0, "next": 1}
"""Position of a key relative to the query."""


# resamples are over heads; heads are removed in this many steps
@measurement(
    "head_roles",
    version=1,
    parameters=["n_scoring"],
    statistics=Constants(resamples=10_000, seed=0, steps=10),
)
def head_roles(context: Context) -> Measured:
    """Means over queries, (layer, head), of what the weights say, and I_h, not normalised."""
    subject, special = context.subject(), load_tokenizer(context.profile.model).all_special_ids
    wanted = {
        "entropy": attention.entropies,
        "entropy words": partial(attention.entropies, leave_out=special),
        "special": partial(attention.mass_on, ids=special),
        **{name: partial(attention.mass_at, offset=offset) for name, offset in OFFSETS.items()},
    }

    def measure() -> Arrays:
        eager = context.subject(subject.seed, kernel="eager")
        batches = eager.batches(eager.scoring).batches
        means = criteria.attention.means_over_queries(eager.model, batches, [*wanted.values()])
        return {name: mean["self"].numpy() for name, mean in zip(wanted, means, strict=True)}

    (raw,) = subject.compute({"roles of heads": measure}, context.journal, "what heads look at")
    plain = subject.importance(context.journal, normalize=None)["self"].numpy()
    return subject.measured(
        {**raw, "importance": plain},
        dataset=f"{context.profile.task}/train",
        n_examples=len(subject.scoring),
        metric="attention",
        unit="share of the weight",
    )


@head_roles.summary
def _(raw: Arrays, statistics: Constants) -> dict[str, Any]:
    """``heads``, a record per head; ``means`` over all heads by role; ``orders`` of removal."""
    layers = np.arange(1.0, 1 + len(raw["importance"]))[:, None]
    # role -> (layer, head): entropy of a head's attention; the largest of its mean weights on the
    # previous, the same and the next token; the weight on special tokens; its layer, from 1
    roles = {
        "entropy": raw["entropy"],
        "place": np.max([raw[name] for name in OFFSETS], axis=0),
        "special": raw["special"],
        "layer": np.broadcast_to(layers, raw["importance"].shape),
    }
    plain = {"self": torch.from_numpy(raw["importance"])}
    scores = {"importance": scoring.normalize_l2(plain), "importance unnormalised": plain}
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
            name: _along([head[1:] for head in selection.rank_heads(each)], roles, statistics)
            for name, each in scores.items()
        },
    }


def _along(
    heads: list[tuple[int, int]], roles: Mapping[str, np.ndarray], statistics: Constants
) -> dict[str, Any]:
    """By role, its mean in each step of an order, and its rank correlation with the place in it."""
    ends = selection.prune_schedule(len(heads), statistics.steps)
    steps = [slice(start, end) for start, end in itertools.pairwise(ends) if end > start]
    places = tuple(np.array(heads).T)
    ordered = {name: values[places] for name, values in roles.items()}
    rank = np.arange(len(heads), dtype=float)
    return {
        "steps": {
            name: [_step(values[step], statistics) for step in steps]
            for name, values in ordered.items()
        },
        "ranks": {
            name: correlation_record(rank, values, "spearman", statistics)
            for name, values in ordered.items()
        },
    }


def _step(values: np.ndarray, statistics: Constants) -> dict[str, Any]:
    """The number of heads that a step removes, and the mean of a role with its interval."""
    drawn = values[bootstrap_indices(len(values), statistics.resamples, statistics.seed)]
    interval = interval_record(drawn.mean(1))
    return {"n": len(values), "mean": float(values.mean()), "interval": interval}
