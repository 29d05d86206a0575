"""Fine-tune an encoder as the paper did; resumes after a kill."""

from __future__ import annotations

import math
import random
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from headprune_lib.replication.data import TASKS, Texts
from headprune_lib.replication.encoder.batches import make_batches, shuffled_by_length
from headprune_lib.replication.encoder.recipe import cached_name, recipe
from headprune_lib.replication.paths import trained_root
from headprune_lib.replication.pretrained import load_tokenizer, new_classifier
from headprune_lib.replication.profiles import Finetuning, Profile
from headprune_lib.replication.training import BatchTrainer, arguments, run
from headprune_lib.replication.weights import BFLOAT16


def finetune(profile: Profile, seed: int) -> nn.Module:
    """Train every weight but what is ``frozen``: AdamW, linear warm-up and decay, cross-entropy.

    After a kill it goes on from the last whole epoch, and ends with the same weights.
    """
    model = new_classifier(profile.model, TASKS[profile.task].labels, seed, "eager")
    freeze(profile, model)
    folder = training_folder(profile, recipe(profile, seed))
    title = f"fine-tune {profile.model} on {profile.task}, seed {seed}"
    return trained(profile, model, profile.finetuning, seed, folder, title)


def freeze(profile: Profile, model: nn.Module) -> None:
    """Leave out of the training what the profile says is ``frozen``."""
    if profile.frozen == "embeddings":
        model.base_model.embeddings.requires_grad_(False)


def trained(
    profile: Profile, model: nn.Module, settings: Finetuning, seed: int, folder: Path, title: str
) -> nn.Module:
    """The model after a training of all its weights that ask for a gradient, in evaluation mode.

    Args:
        profile: says which task, and on which device.
        model: changed in place; dropout goes on from the random numbers drawn before.
        seed: of the order of the sentences.
        folder: keeps the last checkpoint, from which a killed training goes on.
    """
    train = TASKS[profile.task].split("train", profile.data).first(settings.n_train)
    batches = _Batches(load_tokenizer(profile.model), train, settings, seed)
    n_updates = settings.epochs * len(batches)
    with torch.random.fork_rng(devices=[]):  # dropout goes on from where the new weights ended
        trainer = _Trainer(
            model=model,
            train_dataset=batches,
            args=arguments(
                folder,
                seed=seed,
                device=profile.device_here,
                precision=BFLOAT16,
                epochs=settings.epochs,
                optim="adamw_torch",
                learning_rate=settings.learning_rate,
                weight_decay=settings.weight_decay,
                lr_scheduler_type="linear",
                warmup_steps=int(settings.warmup * n_updates),
                logging_strategy="no",
            ),
        )
    run(trainer, title)
    # without autocast around its forward pass
    model = trainer.accelerator.unwrap_model(model, keep_fp32_wrapper=False)
    return model.to(profile.device_here).eval()


def training_folder(profile: Profile, recipe: dict) -> Path:
    """Where a fine-tuning keeps its last checkpoint until it is done; one a recipe and device."""
    device = torch.device(profile.device_here).type  # another one draws other dropout
    suffix = "" if device == "cpu" else f"-{device}"
    return trained_root() / "training" / f"{cached_name(profile.model, recipe)}{suffix}"


class _Batches(Dataset):
    """The batches of one epoch, tokenised when it begins; each epoch has an order of its own."""

    def __init__(self, tokenizer, examples: Texts, settings: Finetuning, seed: int) -> None:
        self.tokenizer, self.examples, self.settings = tokenizer, examples, settings
        shuffle = random.Random(seed)
        self.orders = [
            shuffled_by_length(examples, settings.batch_size, shuffle)
            for _ in range(settings.epochs)
        ]

    def __len__(self) -> int:
        return math.ceil(len(self.examples) / self.settings.batch_size)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return self.batches[i]

    def begin(self, epoch: int) -> None:
        self.batches = make_batches(
            self.tokenizer,
            self.examples,
            self.settings.batch_size,
            self.settings.max_length,
            self.orders[epoch],
        ).batches


class _Loader(DataLoader):
    """Batches in their order; draws nothing from the generator that dropout draws from."""

    def __init__(self, batches: _Batches) -> None:
        super().__init__(batches, batch_size=None, generator=torch.Generator())

    def set_epoch(self, epoch: int) -> None:
        self.dataset.begin(epoch)


class _Trainer(BatchTrainer):
    """The loss is a mean over a batch; weight decay is for every parameter, biases included."""

    def __init__(self, **given) -> None:
        super().__init__(**given)
        self.model_accepts_loss_kwargs = False

    def get_train_dataloader(self) -> DataLoader:
        return _Loader(self.train_dataset)

    def get_decay_parameter_names(self, model: nn.Module) -> list[str]:
        return [name for name, _ in model.named_parameters()]
