"""Score recipes of fine-tuning on training examples held out from it: the test set stays unseen."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from headprune_lib.replication.data import TASKS, Texts
from headprune_lib.replication.encoder.recipe import cached_name, recipe
from headprune_lib.replication.encoder.subject import EncoderSubject, evaluate
from headprune_lib.replication.encoder.training import finetune, training_folder
from headprune_lib.replication.metrics import SCORES
from headprune_lib.replication.paths import cache_root
from headprune_lib.replication.profiles import Finetuning, Profile
from headprune_lib.replication.store.files import Arrays
from headprune_lib.replication.store.journal import Journal
from headprune_lib.replication.training import checkpoints_in

MOST_HELD_OUT = 1500


@dataclasses.dataclass(frozen=True)
class Trial:
    """What one recipe reached on the held-out examples.

    Attributes:
        finetuning: the recipe, with ``n_train``, the number of training examples that were left.
        n_held_out: number of examples that were scored.
        score: in the task's own metric.
        accuracy: share of the held-out examples that are answered right.
        log_loss: mean cross-entropy in nats.
    """

    finetuning: Finetuning
    n_held_out: int
    score: float
    accuracy: float
    log_loss: float


def tune(
    profile: Profile, recipes: Iterable[Finetuning], n_held_out: int | None = None
) -> Iterator[Trial]:
    """Fine-tune with each recipe on all but the last training examples, and score those.

    The seed is the profile's first. Outcomes are kept in the cache, weights are not; a recipe that
    was killed goes on from its last whole epoch. Weights are scored as trained, without the
    rounding of stored ones. Pairs are held out as pairs: one of the two texts may be in another that is not.

    Args:
        recipes: their ``n_train`` is ignored.
        n_held_out: how many training examples are scored instead of trained on; a fifth of them,
            at most 1,500, if not given.

    Raises:
        ValueError: nothing is left to train on, or nothing to score.
    """
    held_out, score = last_examples(profile, n_held_out), SCORES[TASKS[profile.task].metric]
    journal = Journal(cache_root() / "tuning")
    for each in recipes:
        own, found = outcomes(profile, each, held_out, journal)
        yield Trial(
            own,
            len(held_out),
            float(score(found["correct"], np.array(held_out.labels))),
            float(found["correct"].mean()),
            float(found["loss"].mean()),
        )


def last_examples(profile: Profile, n_held_out: int | None = None) -> Texts:
    """The training examples that a recipe is scored on instead of trained; see :func:`tune`."""
    train = TASKS[profile.task].split("train", profile.data)
    if n_held_out is None:
        n_held_out = min(MOST_HELD_OUT, len(train) // 5)
    if not 0 < n_held_out < len(train):
        raise ValueError(
            f"n_held_out is {n_held_out}; give 1 to {len(train) - 1}, for "
            f"{profile.task} has {len(train)} training examples"
        )
    return train.last(n_held_out)


def outcomes(
    profile: Profile, finetuning: Finetuning, held_out: Texts, journal: Journal
) -> tuple[Finetuning, Arrays]:
    """Fine-tune on all training examples but the last ones, and answer these.

    Returns:
        The recipe with its number of training examples; ``correct`` and ``loss`` (nats), each (n,).
    """
    n_train = len(TASKS[profile.task].split("train", profile.data)) - len(held_out)
    own = dataclasses.replace(finetuning, n_train=n_train)
    trying = dataclasses.replace(profile, finetuning=own)
    wanted = recipe(trying, profile.seed)

    def answered() -> Arrays:
        model = finetune(trying, trying.seed)
        subject = EncoderSubject(trying, trying.seed, model, "not stored")
        return evaluate(subject, subject.batches(held_out), None)

    with checkpoints_in(training_folder(trying, wanted)):
        return own, journal.unit(cached_name(profile.model, wanted), answered)
