"""Train a classifier again whose heads were removed: all its weights as before, or adapters."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import torch
from torch import nn

from headprune_lib.replication.adapters import adapted
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.encoder.training import freeze, trained
from headprune_lib.replication.profiles import Finetuning, Profile
from headprune_lib.replication.training import checkpoint_folder, checkpoints_in

Way = Literal["all weights", "LoRA"]
WAYS: tuple[Way, ...] = ("all weights", "LoRA")
SEED = 1
"""Of every training again: sentences come in one order, whichever heads are gone."""


def settings_of(profile: Profile, way: Way) -> Finetuning:
    """The fine-tuning's own recipe for as many epochs as ``recovery`` says; LoRA at its own rate."""
    recovery, own = profile.recovery, profile.finetuning
    rate = own.learning_rate if way == "all weights" else recovery.lora.learning_rate
    return dataclasses.replace(own, epochs=recovery.epochs, learning_rate=rate)


def recipe_of(profile: Profile, way: Way) -> dict[str, Any]:
    """What a training again depends on, besides the model and its text."""
    recipe = {"seed": SEED, **dataclasses.asdict(settings_of(profile, way))}
    return recipe if way == "all weights" else recipe | {"rank": profile.recovery.lora.rank}


def retrained(subject: EncoderSubject, model: nn.Module, way: Way, heads: str) -> nn.Module:
    """The model after training on the subject's training sentences, in evaluation mode.

    A killed training goes on from its last whole epoch. Weights are those of the training, without
    the rounding of stored ones.

    Args:
        model: the subject's, without some heads; changed in place.
        heads: tells apart which heads are gone.
    """
    profile = subject.profile
    said = [recipe_of(profile, way), way, subject.weights_sha256, heads, profile.device_here]
    folder = checkpoint_folder(f"{profile.task}-{profile.model}-again", said)
    settings, title = settings_of(profile, way), f"train {profile.model} again, {way}"
    with checkpoints_in(folder):
        torch.manual_seed(SEED)
        if way == "LoRA":
            wrapped = adapted(model, projections(model), profile.recovery.lora.rank)
            trained(profile, wrapped, settings, SEED, folder, title)
            return wrapped.merge_and_unload().eval()
        freeze(profile, model)
        return trained(profile, model, settings, SEED, folder, title)


def projections(model: nn.Module) -> list[str]:
    """Names of the linear layers of attention and feed-forward, in every layer of the encoder."""
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and ".encoder." in f".{name}"
    ]
