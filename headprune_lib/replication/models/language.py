"""Language models: batches of passages, and LoRA on every projection of a pruned model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headprune_lib.replication.lazy import setups, torch, training, utils
from headprune_lib.replication.models.weights import FLOAT32

SEED = 1
PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
"""The projections of a layer that are adapted; without heads it has no attention left to adapt."""


def padded(passages: Sequence[list[int]]) -> utils.Batch:
    """Passages as a batch; padding has no label."""
    return {
        "input_ids": utils.pad(passages, 0),
        "attention_mask": utils.pad([[1] * len(ids) for ids in passages], 0),
        "labels": utils.pad(passages, utils.NO_LABEL),
    }


def tuned(subject: setups.LanguageSubject, model: torch.nn.Module, folder: Path) -> torch.nn.Module:
    """Train LoRA adapters on the subject's training passages, and merge them into the model.

    There is one batch per update: the training passages are repeated as often as needed. An
    interrupted training resumes from its last checkpoint in ``folder``.
    """
    settings, size = subject.profile.language.tuning, subject.profile.language.tuning.batch_size
    wanted = settings.updates * size
    passages = subject.tuning * (1 + wanted // len(subject.tuning))
    torch.manual_seed(SEED)
    targets = [name for name, _ in model.named_modules() if name.rpartition(".")[2] in PROJECTIONS]
    wrapped = training.adapted(model, targets, settings.rank, "CAUSAL_LM")
    with training.checkpoints_in(folder):
        training.fit(
            wrapped,
            [padded(passages[i : i + size]) for i in range(0, wanted, size)],
            folder,
            f"LoRA, {settings.updates} updates",
            seed=SEED,
            device=subject.profile.device_here,
            precision=FLOAT32,
            epochs=1,
            learning_rate=settings.learning_rate,
            warmup_steps=settings.updates // 10,
        )
    return wrapped.merge_and_unload().eval()
