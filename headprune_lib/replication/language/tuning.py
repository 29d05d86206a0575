"""Train a pruned language model again: LoRA on every projection, with transformers' ``Trainer``."""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import Dataset

from headprune_lib.masking import HeadTensors
from headprune_lib.pruning import prune_heads
from headprune_lib.replication.adapters import adapted
from headprune_lib.replication.language.subject import LanguageSubject, padded
from headprune_lib.replication.profiles import Tuning
from headprune_lib.replication.training import (
    BatchTrainer,
    arguments,
    checkpoints_in,
    run,
    whole_batch,
)
from headprune_lib.utils import Batch

SEED = 1
PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
"""What of a layer is adapted; a layer without heads has no attention left to adapt."""


def pruned(subject: LanguageSubject, mask: HeadTensors) -> nn.Module:
    """A copy of the subject's model without the heads that the mask cuts."""
    return prune_heads(copy.deepcopy(subject.model), mask)


def tuned(subject: LanguageSubject, model: nn.Module, folder: Path) -> nn.Module:
    """The model after LoRA on the subject's training passages; its adapters are merged into it.

    Args:
        model: changed in place.
        folder: keeps the last checkpoint, from which a killed training goes on.
    """
    settings = subject.profile.language.tuning
    torch.manual_seed(SEED)
    targets = [name for name, _ in model.named_modules() if name.rpartition(".")[2] in PROJECTIONS]
    wrapped = adapted(model, targets, settings.rank, "CAUSAL_LM")
    trainer = BatchTrainer(
        model=wrapped,
        train_dataset=_Passages(subject, settings),
        data_collator=whole_batch,
        args=arguments(
            folder,
            seed=SEED,
            device=subject.profile.device_here,
            precision="float32",
            epochs=1,
            learning_rate=settings.learning_rate,
            lr_scheduler_type="linear",
            warmup_steps=settings.updates // 10,
            logging_strategy="no",
        ),
    )
    with checkpoints_in(folder):
        run(trainer, f"LoRA, {settings.updates} updates")
    return wrapped.merge_and_unload().eval()


class _Passages(Dataset):
    """As many batches as there are updates; the training passages from the start, over and over."""

    def __init__(self, subject: LanguageSubject, settings: Tuning) -> None:
        wanted = settings.updates * settings.batch_size
        passages = subject.tuning * (1 + wanted // len(subject.tuning))
        self.batches: list[Batch] = [
            padded(passages[i : i + settings.batch_size])
            for i in range(0, wanted, settings.batch_size)
        ]

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, i: int) -> Batch:
        return self.batches[i]
