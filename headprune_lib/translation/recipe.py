"""How a translation model is made: its shape and its training."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from headprune_lib.translation.verses import TRANSLATION_TASKS

TRAINING_VERSION = 1
"""Bumped when the same parameters would give other weights."""


@dataclass(frozen=True)
class Shape:
    """Size of a post-norm Transformer with one vocabulary for both languages."""

    layers: int
    heads: int
    width: int
    feed_forward: int
    vocabulary: int
    dropout: float


@dataclass(frozen=True)
class Recipe:
    """How a translation model is trained; part of its file and of every result's signature."""

    shape: Shape
    batch_tokens: int          # target tokens of an update, at most
    learning_rate: float       # the peak
    warmup: int                # updates up to the peak; then inverse square root
    label_smoothing: float
    min_epochs: int            # before early stopping may end it
    max_epochs: int
    patience: int              # epochs without a better validation BLEU
    averaged_epochs: int       # the last ones, whose weights are averaged into the final ones


def full_recipe(task: str, recipe: Recipe, seed: int) -> dict:
    """Everything that the weights after an epoch of a training depend on."""
    return {
        "version": TRAINING_VERSION,
        "task": task,
        "data": TRANSLATION_TASKS[task].checksums,
        "seed": seed,
        "precision": "bfloat16 autocast",
        **{name: value for name, value in dataclasses.asdict(recipe).items()
           if name != "averaged_epochs"},
    }


def final_recipe(task: str, recipe: Recipe, seed: int) -> dict:
    """Everything that the final weights depend on."""
    return {**full_recipe(task, recipe, seed), "averaged_epochs": recipe.averaged_epochs}
