"""How an encoder is fine-tuned."""

from __future__ import annotations

import dataclasses
import hashlib
import json

from headprune_lib.replication.data import TASKS
from headprune_lib.replication.pretrained import BASES
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.weights import BFLOAT16, TRAINING_VERSION


def recipe(profile: Profile, seed: int, *, registered: bool = False) -> dict:
    """Everything a fine-tuning depends on: part of a result's signature and of the weight file.

    With ``registered``, on the text that committed results were measured on.
    """
    task = TASKS[profile.task]
    return {
        "version": TRAINING_VERSION,
        "task": task.whole,
        "data": task.registered if registered else task.checksums(profile.data),
        "base": BASES[profile.model].checksums,
        "seed": seed,
        "precision": BFLOAT16,
        "frozen": profile.frozen,
        **dataclasses.asdict(profile.finetuning),
    }


def file_name(base: str, recipe: dict) -> str:
    """What a committed fine-tuning is called."""
    return f"{recipe['task']}-{base}-seed{recipe['seed']}"


def cached_name(base: str, recipe: dict) -> str:
    """What the cache's files of a fine-tuning are called: each recipe of a task otherwise."""
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
    return f"{file_name(base, recipe)}-{digest[:8]}"
