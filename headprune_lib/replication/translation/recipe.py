"""What a translation model's training depends on, and what it is called."""

from __future__ import annotations

import dataclasses

from headprune_lib.replication.data import TRANSLATION_TASKS
from headprune_lib.replication.profiles import (
    POST_NORM,
    FairseqRecipe,
    Published,
    Recipe,
    TranslatorRecipe,
)
from headprune_lib.replication.translation import public
from headprune_lib.replication.translation.fairseq_training import RECIPE
from headprune_lib.replication.weights import TRAINING_VERSION


def full_recipe(
    task: str, recipe: TranslatorRecipe, seed: int, *, registered: bool = False
) -> dict:
    """Everything that the weights after an epoch of a training depend on.

    With ``registered``, on the text that committed results were measured on.
    """
    if isinstance(recipe, Published):
        return {"version": TRAINING_VERSION, "task": task, **public.described(recipe)}
    described, text = dataclasses.asdict(recipe), TRANSLATION_TASKS[task]
    if isinstance(recipe, FairseqRecipe):
        return {
            "version": TRAINING_VERSION,
            "task": task,
            "data": text.checksums,
            "seed": seed,
            "fairseq-train": list(RECIPE),
            **described,
        }
    if recipe.shape.norm == "after":  # as the recipes of before there was a choice
        del described["shape"]["norm"]
    return {
        "version": TRAINING_VERSION,
        "task": task,
        "data": text.registered if registered else text.checksums,
        "seed": seed,
        "precision": recipe.precision,
        **{name: value for name, value in described.items() if name != "averaged_epochs"},
    }


def final_recipe(
    task: str, recipe: TranslatorRecipe, seed: int, *, registered: bool = False
) -> dict:
    """Everything that the final weights depend on; ``registered`` as of :func:`full_recipe`."""
    full = full_recipe(task, recipe, seed, registered=registered)
    if not isinstance(recipe, Recipe):
        return full
    return {**full, "averaged_epochs": recipe.averaged_epochs}


def file_name(task: str, model: str, seed: int) -> str:
    """What a training's folder and its committed files are called.

    >>> file_name("deen", "post-norm", 1), file_name("deen", "pre-norm", 2)
    ('deen-seed1', 'deen.pre-norm-seed2')
    """
    return f"{task}-seed{seed}" if model == POST_NORM else f"{task}.{model}-seed{seed}"
