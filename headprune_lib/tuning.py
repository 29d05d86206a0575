"""Score recipes of fine-tuning on training examples held out from it: the test set stays unseen."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from headprune_lib.data import TASKS
from headprune_lib.experiments.metrics import SCORES
from headprune_lib.experiments.outcomes import Setting, evaluate
from headprune_lib.profiles import Finetuning, Profile
from headprune_lib.training import checkpoint_path, finetune, recipe


@dataclasses.dataclass(frozen=True)
class Trial:
    """What one recipe reached on the held-out examples.

    Attributes:
        finetuning: the recipe; its ``n_train`` are the first training examples, the held-out ones
            the last.
        score: in the task's own metric.
        accuracy: share of the held-out examples.
        log_loss: mean cross-entropy in nats.
    """

    finetuning: Finetuning
    score: float
    accuracy: float
    log_loss: float


def tune(profile: Profile, recipes: Iterable[Finetuning], n_held_out: int) -> Iterator[Trial]:
    """Fine-tune with each recipe on all but the last training examples, and score those.

    The seed is the profile's first. Weights are not kept; what was trained when a run is killed is,
    until all recipes are done.

    Args:
        recipes: their ``n_train`` does not count.
        n_held_out: how many training examples are scored instead of trained on.

    Raises:
        ValueError: nothing is left to train on, or nothing to score.
    """
    train = TASKS[profile.task].split("train", profile.data)
    if not 0 < n_held_out < len(train):
        raise ValueError(f"n_held_out is {n_held_out}; give 1 to {len(train) - 1}, for "
                         f"{profile.task} has {len(train)} training examples")
    held_out, used = train.last(n_held_out), []
    for each in recipes:
        own = dataclasses.replace(each, n_train=len(train) - n_held_out)
        trying = dataclasses.replace(profile, finetuning=own)
        used.append(checkpoint_path(profile.model, recipe(trying, profile.seed)))
        setting = Setting(trying, profile.seed, finetune(trying, profile.seed), "not stored")
        found = evaluate(setting, setting.batches(held_out), None)
        score = SCORES[TASKS[profile.task].metric](found["correct"], np.array(held_out.labels))
        yield Trial(own, float(score), float(found["correct"].mean()), float(found["loss"].mean()))
    for path in used:
        path.unlink(missing_ok=True)
