"""Train a translator again whose heads were removed: all its weights, by its own recipe."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from headprune_lib.replication.profiles import Profile, Recipe
from headprune_lib.replication.training import (
    BatchTrainer,
    checkpoint_folder,
    checkpoints_in,
    run,
    whole_batch,
)
from headprune_lib.replication.translation.batches import token_batches
from headprune_lib.replication.translation.subject import TranslationSubject
from headprune_lib.replication.translation.training import recipe_arguments

SEED = 1
"""Of every training again: batches come in one order, whichever heads are gone."""
WARMUP = 0.1
"""Share of the updates in which the learning rate rises, as in the fine-tuning of the encoder."""


def recipe_of(profile: Profile) -> dict[str, Any]:
    """What a training again depends on, besides the model, its recipe and its text."""
    return {"seed": SEED, "warmup": WARMUP, "epochs": profile.recovery.epochs}


def retrained(subject: TranslationSubject, model: nn.Module, heads: str) -> nn.Module:
    """The model after training on the subject's training pairs, in evaluation mode.

    With the recipe of its training, but for the learning rate: it rises to the value at which that
    training ended, and falls linearly to 0. A killed training goes on from its last whole epoch.

    Args:
        model: the subject's, without some heads; changed in place.
        heads: tells apart which heads are gone.

    Raises:
        ValueError: the model was not trained by a recipe of ours.
    """
    profile, task, name = subject.profile, subject.task, subject.profile.model_of(subject.task)
    recipe = profile.translator(task, name)
    if not isinstance(recipe, Recipe):
        raise ValueError(
            f"the model of {task}, {name} is trained by others; give one that is trained here"
        )
    said = [recipe_of(profile), subject.translator.weights_sha256, heads, profile.device_here]
    folder = checkpoint_folder(f"{task}.{name}-again", said)
    batches = _batches(subject, recipe)
    n_updates = profile.recovery.epochs * len(batches)
    torch.manual_seed(SEED)
    trainer = BatchTrainer(
        model=model,
        args=recipe_arguments(
            folder,
            recipe,
            SEED,
            profile.device_here,
            epochs=profile.recovery.epochs,
            learning_rate=last_rate(recipe, subject.translator.curve[-1]["updates"]),
            warmup_steps=int(WARMUP * n_updates),
            lr_scheduler_type="linear",
            logging_strategy="no",
        ),
        train_dataset=batches,
        data_collator=whole_batch,
    )
    with checkpoints_in(folder):
        run(trainer, f"train {task}, {name} again")
    # without autocast around its forward pass
    model = trainer.accelerator.unwrap_model(model, keep_fp32_wrapper=False)
    return model.to(profile.device_here).eval()


def last_rate(recipe: Recipe, updates: int) -> float:
    """The learning rate after so many updates of a training: inverse square root after warm-up."""
    return recipe.learning_rate * math.sqrt(recipe.warmup / max(updates, recipe.warmup))


def _batches(subject: TranslationSubject, recipe: Recipe) -> list[dict[str, torch.Tensor]]:
    pairs, translator = subject.split("train"), subject.translator
    return token_batches(
        translator.encode(pairs.sources),
        translator.encode_targets(pairs.targets),
        recipe.batch_tokens,
        SEED,
        subject.model.config.decoder_start_token_id,
    )
