"""Fine-tune an encoder as the paper did, and give back the stored fine-tuning if there is one."""

from __future__ import annotations

import dataclasses
import pickle
import random
from pathlib import Path

import torch
from torch import nn
from tqdm import tqdm
from transformers import get_linear_schedule_with_warmup

from headprune_lib.bases import BASES, load_tokenizer
from headprune_lib.batching import make_batches
from headprune_lib.data import TASKS, Examples
from headprune_lib.journal import whole_file
from headprune_lib.models import (
    cached_name,
    new_classifier,
    read_finetuned,
    save_finetuned,
    weights_path,
    with_weights,
)
from headprune_lib.paths import cache_root
from headprune_lib.profiles import Profile

TRAINING_VERSION = 1
"""Bumped when the same parameters would give other weights."""


def recipe(profile: Profile, seed: int, *, registered: bool = False) -> dict:
    """Everything a fine-tuning depends on: part of a result's signature and of the weight file.

    With ``registered``, on the text that committed results were measured on.
    """
    task = TASKS[profile.task]
    return {
        "version": TRAINING_VERSION,
        "task": profile.task,
        "data": task.registered if registered else task.checksums(profile.data),
        "base": BASES[profile.model].checksums,
        "seed": seed,
        "precision": "bfloat16 autocast",
        "frozen": "embeddings",
        **dataclasses.asdict(profile.finetuning),
    }


def finetuned(
    profile: Profile, seed: int | None = None, *, kernel: str = "sdpa", retrain: bool = False
) -> nn.Module:
    """The fine-tuned classifier of a seed: the stored one, else trained now and stored.

    Weights are rounded to float16 before anything is measured with them, so that the file and the
    measurement speak of the same model.

    Args:
        seed: the profile's first if not given.
        kernel: attention implementation; ``"eager"`` is faster where a gradient is needed on a CPU.
        retrain: train again even if weights are stored.
    """
    seed = profile.seed if seed is None else seed
    wanted = recipe(profile, seed)
    path = weights_path(profile.model, wanted)
    weights = None if retrain else read_finetuned(path, wanted)
    if weights is None:
        model = finetune(profile, seed)
        frozen = {n for n, p in model.named_parameters() if not p.requires_grad}
        save_finetuned(model, path, frozen, wanted)
        checkpoint_path(profile.model, wanted).unlink(missing_ok=True)
        weights = read_finetuned(path, wanted)
    model = with_weights(profile.task, profile.model, seed, weights, kernel)
    return model.to(profile.device)


def finetune(profile: Profile, seed: int) -> nn.Module:
    """Train every weight but the embeddings: AdamW, linear warm-up and decay, cross-entropy.

    After a kill it goes on from the last whole epoch, and ends with the same weights.
    """
    settings = profile.finetuning
    train = TASKS[profile.task].split("train", profile.data).first(settings.n_train)
    model = new_classifier(profile.model, TASKS[profile.task].labels, seed, "eager")
    model.base_model.embeddings.requires_grad_(False)
    model.to(profile.device).train()
    tokenizer = load_tokenizer(profile.model)
    n_updates = settings.epochs * -(-len(train) // settings.batch_size)
    optimizer = torch.optim.AdamW(
        (p for p in model.parameters() if p.requires_grad),
        lr=settings.learning_rate, weight_decay=settings.weight_decay,
    )
    schedule = get_linear_schedule_with_warmup(
        optimizer, int(settings.warmup * n_updates), n_updates
    )
    shuffle = random.Random(seed)
    saved = _Checkpoint(profile, seed, {"model": model, "optimizer": optimizer,
                                        "schedule": schedule}, shuffle)
    done = saved.restore()
    with tqdm(total=n_updates, initial=done * n_updates // settings.epochs, unit="update",
              desc=f"fine-tune {profile.model} on {profile.task}, seed {seed}") as bar:
        for epoch in range(done, settings.epochs):
            order = shuffled_by_length(train, settings.batch_size, shuffle)
            made = make_batches(tokenizer, train, settings.batch_size, settings.max_length, order)
            for batch in made.batches:
                batch = {name: value.to(profile.device) for name, value in batch.items()}
                with torch.autocast(torch.device(profile.device).type, torch.bfloat16):
                    loss = model(**batch).loss
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad(set_to_none=True)
                bar.update()
            saved.write(epoch + 1)
    return model.eval()


def checkpoint_path(base: str, recipe: dict) -> Path:
    """Where a fine-tuning keeps its state after each epoch, until it is done."""
    return cache_root() / "training" / f"{cached_name(base, recipe)}.pt"


class _Checkpoint:
    """The state of a fine-tuning after a whole epoch, in the cache."""

    def __init__(self, profile: Profile, seed: int, parts: dict, shuffle: random.Random) -> None:
        self.recipe = recipe(profile, seed)
        self.path = checkpoint_path(profile.model, self.recipe)
        self.parts, self.shuffle, self.device = parts, shuffle, torch.device(profile.device)

    def restore(self) -> int:
        """Put the stored state back, if it is of the same recipe; the number of epochs done."""
        if not self.path.is_file():
            return 0
        try:
            state = torch.load(self.path, weights_only=True, map_location="cpu")
            if (state["recipe"], state["device"]) != (self.recipe, self.device.type):
                return 0  # another device draws other dropout
        except (OSError, EOFError, RuntimeError, KeyError, pickle.UnpicklingError):
            return 0  # damaged, or not ours: train from the start
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        version, numbers, gauss = state["shuffle"]
        self.shuffle.setstate((version, tuple(numbers), gauss))
        torch.set_rng_state(state["dropout"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state["dropout on GPU"], self.device)
        return state["epoch"]

    def write(self, epoch: int) -> None:
        version, numbers, gauss = self.shuffle.getstate()
        state = {name: part.state_dict() for name, part in self.parts.items()}
        state |= {"epoch": epoch, "recipe": self.recipe, "dropout": torch.get_rng_state(),
                  "shuffle": [version, list(numbers), gauss], "device": self.device.type}
        if self.device.type == "cuda":
            state["dropout on GPU"] = torch.cuda.get_rng_state(self.device)
        with whole_file(self.path) as part:
            torch.save(state, part)


def shuffled_by_length(examples: Examples, batch_size: int, generator: random.Random) -> list[int]:
    """A random order whose batches hold sentences of like length: little padding, still random."""
    order = list(range(len(examples)))
    generator.shuffle(order)
    window = 50 * batch_size
    sides = [*zip(*filter(None, (examples.texts, examples.second)), strict=True)]
    batches = []
    for start in range(0, len(order), window):
        near = sorted(order[start : start + window], key=lambda i: sum(map(len, sides[i])))
        batches += [near[i : i + batch_size] for i in range(0, len(near), batch_size)]
    # a short batch goes last, or make_batches would cut the others at its length
    short = [b for b in batches if len(b) < batch_size]
    batches = [b for b in batches if len(b) == batch_size]
    generator.shuffle(batches)
    return [i for batch in batches + short for i in batch]
