"""Recipes of fine-tuning, compared on held-out training examples: the test set stays unseen.

Not in the paper, which has its own recipe. A part is a recipe, so that adding one leaves the others
alone. Weights are evaluated as trained, without the rounding of stored ones, and are not kept.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from headprune_lib.replication.data import TASKS
from headprune_lib.replication.measurements.base import Constants, Context, Own, measurement
from headprune_lib.replication.measurements.estimates import Scored, of_answers
from headprune_lib.replication.metrics import MILLINAT, SCORES, millinats
from headprune_lib.replication.models import encoders as tuning
from headprune_lib.replication.profiles import Candidate, Finetuning, Profile
from headprune_lib.replication.store import Measured, Outcomes


def name_of(candidate: Candidate) -> str:
    """The name of a recipe's part.

    >>> name_of(Candidate(epochs=10, learning_rate=1e-4, batch_size=32))
    '10 epochs 0.0001 batch 32'
    """
    return f"{candidate.epochs} epochs {candidate.learning_rate:g} batch {candidate.batch_size}"


def read_name(name: str) -> Candidate:
    """The recipe in a part's name.

    Raises:
        ValueError: not the name of a recipe.
    """
    try:
        epochs, _, rate, _, size = name.split()
        candidate = Candidate(epochs=int(epochs), learning_rate=float(rate), batch_size=int(size))
    except ValueError as error:
        raise ValueError(
            f"{name!r} is not a recipe. Give one such as '10 epochs 0.0001 batch 32'"
        ) from error
    if name_of(candidate) != name:
        raise ValueError(f"{name!r} is not a recipe's name. Write it as {name_of(candidate)!r}")
    return candidate


def _finetuning(profile: Profile, part: str) -> Finetuning:
    return dataclasses.replace(profile.finetuning, **dataclasses.asdict(read_name(part)))


@measurement(
    "recipes",
    version=1,
    parameters=lambda: {"most_held_out": tuning.MOST_HELD_OUT},
    statistics=Constants(resamples=10_000, seed=0),
    parts=lambda profile: tuple(map(name_of, profile.recipes)),
    own=lambda profile, part: Own(finetuning=_finetuning(profile, part)),
)
def recipes(context: Context, part: str) -> Measured:
    """Answers to held-out training examples, and their losses, after a training by the recipe."""
    profile, metric = context.profile, TASKS[context.task].metric
    held_out = tuning.last_examples(profile)
    answers = tuning.outcomes(profile, _finetuning(profile, part), held_out, context.journal)
    raw = {
        "correct": answers["correct"],
        "loss": millinats(answers["loss"]),
        "labels": np.array(held_out.labels, np.int8),
        "metric": np.array(metric),
    }
    return Measured(
        raw,
        [{"seed": profile.seed}],
        f"{profile.task}/train",
        len(held_out),
        metric,
        SCORES[metric].unit,
    )


@recipes.summary
def _(outcomes: Outcomes, statistics: Constants) -> dict[str, Any]:
    """``recipes`` from the shortest to the longest training.

    Each has its score and log-loss (nats), and its ``gain`` in score over the shortest one.
    """
    candidates = sorted(map(read_name, outcomes), key=dataclasses.astuple)
    raws = [outcomes[name_of(candidate)] for candidate in candidates]
    n = len(raws[0]["labels"])
    reached = of_answers(np.stack([raw["correct"] for raw in raws]), raws[0]).drawn(statistics)
    losses = np.stack([raw["loss"] for raw in raws]) / MILLINAT
    nats = Scored(losses[..., None], lambda sums: sums[..., 0] / n).drawn(statistics)
    return {
        "recipes": [
            {
                **dataclasses.asdict(candidate),
                "score": float(reached.value[i]),
                "interval": reached.interval[i],
                "accuracy": float(raws[i]["correct"].mean()),
                "log_loss": float(losses[i].mean()),
                "log_loss_interval": nats.interval[i],
                "gain": reached.map(lambda scores, i=i: scores[..., i] - scores[..., 0]).difference,
            }
            for i, candidate in enumerate(candidates)
        ]
    }
