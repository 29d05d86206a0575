"""Whether a stored result was measured on the trained weights that are at hand.

A signature holds how a model was trained, not what came out: the same training on another machine
gives other weights. A result says which ones it was measured on, by their hash.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from headprune_lib.replication.measurements.measurement import Half
from headprune_lib.replication.models.encoders import recipe, weights_path
from headprune_lib.replication.models.translators import stored_weights
from headprune_lib.replication.models.weights import sha256_of
from headprune_lib.replication.paths import models_root
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import Part


class OtherWeights(ValueError):
    """The committed weights are not those that a committed result was measured on."""


def weights_at_hand(half: Half, profile: Profile, task: str, run: dict[str, Any]) -> Path | None:
    """The file of a run's weights, committed or cached; None where nobody has trained it here.

    Args:
        run: an entry of a result: the seed of a training, and the epoch or the update if it was
            measured within it.
    """
    if half == "language":  # nobody trains these: a signature holds the checksum of their weights
        return None
    if half == "encoder":
        path = weights_path(profile.model, recipe(profile, run["seed"]))
        return path if path.is_file() else None
    return stored_weights(
        profile,
        task,
        run["seed"],
        model=profile.model_of(task),
        epoch=run.get("epoch"),
        update=run.get("update"),
    )


def check_weights(
    half: Half, profile: Profile, task: str, part: Part, *, what: str, command: str
) -> None:
    """Compare the weights at hand with those that a stored part was measured on.

    Weights in the cache were trained here, and may well differ from those of a result that was
    measured elsewhere: that is said in a warning.

    Args:
        what: names the part, for messages.
        command: what measures it again, for messages.

    Raises:
        OtherWeights: the weights at hand are committed, and others.
    """
    for run in part.runs:
        measured = run.get("weights_sha256")
        path = weights_at_hand(half, profile, task, run) if measured else None
        if path is None or (found := sha256_of(path)) == measured:
            continue
        told = f"{path} has SHA-256 {found}, and {what} was measured on {measured}"
        if path.parent == models_root():
            raise OtherWeights(
                f"{told}: put the committed file back (`git checkout`), or measure again with: "
                f"{command}"
            )
        warnings.warn(
            f"{told}: two trainings by one recipe, which another machine does not end with the "
            f"same weights. To measure the one at hand: {command}",
            stacklevel=2,
        )
