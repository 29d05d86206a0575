"""How a translation model is made: its shape and its training."""

from __future__ import annotations

import dataclasses
from typing import Literal

from pydantic import StrictFloat, StrictInt

from headprune_lib.replication.data.verses import TRANSLATION_TASKS
from headprune_lib.replication.parameters import PositiveFloat, PositiveInt, parameters
from headprune_lib.replication.weights import BFLOAT16, TRAINING_VERSION

POST_NORM = "post-norm"
"""The model of a task that is meant where none is named."""


@parameters
class Shape:
    """Size of a Transformer with one vocabulary for both languages.

    ``norm`` is where layers are normalised: after each block with its residual connection, as
    Vaswani et al. 2017 and the paper's WMT model have it, or before, as its IWSLT model has it.
    """

    layers: PositiveInt
    heads: PositiveInt
    width: PositiveInt
    feed_forward: PositiveInt
    vocabulary: PositiveInt
    dropout: StrictFloat
    norm: Literal["after", "before"] = "after"


@parameters
class Recipe:
    """How a translation model is trained; part of its file and of every result's signature."""

    shape: Shape
    batch_tokens: PositiveInt  # target tokens of an update, at most
    learning_rate: PositiveFloat  # the peak
    warmup: StrictInt  # updates up to the peak; then inverse square root
    label_smoothing: StrictFloat
    min_epochs: PositiveInt  # before early stopping may end it
    max_epochs: PositiveInt
    patience: PositiveInt  # epochs without a better validation BLEU
    averaged_epochs: PositiveInt  # the last ones, whose weights are averaged into the final ones
    precision: Literal["bfloat16 autocast", "float32"] = BFLOAT16


def full_recipe(task: str, recipe: Recipe, seed: int) -> dict:
    """Everything that the weights after an epoch of a training depend on."""
    described = dataclasses.asdict(recipe)
    if recipe.shape.norm == "after":  # as the recipes of before there was a choice
        del described["shape"]["norm"]
    return {
        "version": TRAINING_VERSION,
        "task": task,
        "data": TRANSLATION_TASKS[task].checksums,
        "seed": seed,
        "precision": recipe.precision,
        **{name: value for name, value in described.items() if name != "averaged_epochs"},
    }


def final_recipe(task: str, recipe: Recipe, seed: int) -> dict:
    """Everything that the final weights depend on."""
    return {**full_recipe(task, recipe, seed), "averaged_epochs": recipe.averaged_epochs}


def file_name(task: str, model: str, seed: int) -> str:
    """What a training's folder and its committed files are called.

    >>> file_name("deen", "post-norm", 1), file_name("deen", "pre-norm", 2)
    ('deen-seed1', 'deen.pre-norm-seed2')
    """
    return f"{task}-seed{seed}" if model == POST_NORM else f"{task}.{model}-seed{seed}"
