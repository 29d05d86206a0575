"""Train an encoder-decoder from nothing with transformers' ``Seq2SeqTrainer``; resumes after a kill."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import sacrebleu
import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from headprune_lib.journal import replace_files
from headprune_lib.models import save_finetuned, stored_recipe
from headprune_lib.naming import unknown
from headprune_lib.paths import cache_root
from headprune_lib.profiles import Profile
from headprune_lib.translation.generation import detokenise, generate
from headprune_lib.translation.models import (
    encode,
    new_model,
    read_vocabulary,
    token_batches,
    train_vocabulary,
)
from headprune_lib.translation.recipe import Recipe, full_recipe
from headprune_lib.translation.verses import TRANSLATION_TASKS, Pairs


def training_folder(task: str, seed: int) -> Path:
    """Checkpoints, weights of every epoch, vocabulary and learning curve of a training."""
    return cache_root() / "training" / f"{task}-seed{seed}"


def epoch_path(folder: Path, epoch: int) -> Path:
    """Weights (float16) after an epoch."""
    return folder / f"epoch-{epoch:02d}.safetensors"


def read_curve(folder: Path) -> list[dict]:
    """The learning curve: epoch, updates, validation BLEU and training loss; empty before epoch 1."""
    path = folder / "curve.json"
    return json.loads(path.read_text()) if path.is_file() else []


def best_epoch(curve: list[dict]) -> int:
    """The epoch with the highest validation BLEU, the first of equals."""
    return max(curve, key=lambda record: record["bleu"])["epoch"]


def finished(curve: list[dict], recipe: Recipe) -> bool:
    """Whether a training with this learning curve has come to its end."""
    epoch = len(curve)
    return epoch >= recipe.max_epochs or (
        epoch >= recipe.min_epochs and epoch - best_epoch(curve) >= recipe.patience)


def train(profile: Profile, task: str, seed: int, *, retrain: bool = False) -> Path:
    """Train a translation task until the validation BLEU stops rising; returns the folder.

    It holds ``vocabulary.spm``, ``epoch-NN.safetensors`` (float16) after each epoch,
    ``curve.json`` (one record an epoch) and the last checkpoint, from which a killed run goes on.

    Raises:
        ValueError: the profile has no recipe for the task (the nearest names are suggested), or
            the folder holds a training by another one.
    """
    if task not in profile.translation:
        raise ValueError(unknown("translation task", task, profile.translation))
    recipe, folder = profile.translation[task], training_folder(task, seed)
    if retrain and folder.exists():
        shutil.rmtree(folder)
    _check_recipe(folder, full_recipe(task, recipe, seed))
    if (curve := read_curve(folder)) and finished(curve, recipe):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    splits = TRANSLATION_TASKS[task].load()
    stored = folder / "vocabulary.spm"
    if not stored.is_file():
        replace_files({stored: train_vocabulary(splits["train"], recipe.shape.vocabulary)})
    vocabulary = read_vocabulary(stored.read_bytes())
    # the attention kernel with the fastest backward pass on a CPU
    model = new_model(recipe.shape, seed, "eager")
    pairs = splits["train"]
    batches = token_batches(encode(vocabulary, pairs.sources), encode(vocabulary, pairs.targets),
                            recipe.batch_tokens, seed)
    trainer = _Trainer(
        model=model,
        args=_arguments(folder, recipe, seed, profile.device),
        train_dataset=_Batches(batches),
        eval_dataset=_Batches(batches[:1]),
        data_collator=lambda items: items[0],  # an item is a batch already
        callbacks=[_KeepEpochs(folder, recipe, full_recipe(task, recipe, seed))],
    )
    trainer.judge = lambda: validation_bleu(trainer.model, vocabulary, splits["valid"])
    trainer.train(resume_from_checkpoint=get_last_checkpoint(str(folder)))
    return folder


def _check_recipe(folder: Path, wanted: dict) -> None:
    """Raises ValueError where the folder holds epochs of another recipe, damaged ones included."""
    for path in sorted(folder.glob("epoch-*.safetensors")):
        if stored_recipe(path) != wanted:
            raise ValueError(f"{path} is of a training by another recipe, or damaged: move "
                             f"{folder} away, or train anew with --retrain")


def validation_bleu(model: nn.Module, vocabulary, pairs: Pairs) -> float:
    """Greedy corpus BLEU of a model on pairs of sentences."""
    was_training = model.training
    model.eval()
    hypotheses = detokenise(vocabulary, generate(model, encode(vocabulary, pairs.sources)))
    model.train(was_training)
    return sacrebleu.corpus_bleu(hypotheses, [list(pairs.targets)]).score


def _arguments(folder: Path, recipe: Recipe, seed: int, device: str) -> Seq2SeqTrainingArguments:
    return Seq2SeqTrainingArguments(
        output_dir=str(folder), seed=seed, bf16=True, use_cpu=torch.device(device).type == "cpu",
        per_device_train_batch_size=1, num_train_epochs=recipe.max_epochs,
        learning_rate=recipe.learning_rate, warmup_steps=recipe.warmup,
        lr_scheduler_type="inverse_sqrt", label_smoothing_factor=recipe.label_smoothing,
        adam_beta2=0.98, weight_decay=0.0, max_grad_norm=1.0,
        eval_strategy="epoch", save_strategy="epoch", save_total_limit=1,
        logging_steps=50, report_to=[], remove_unused_columns=False, dataloader_num_workers=0,
    )


class _Batches(Dataset):
    def __init__(self, batches: list[dict]) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, i: int) -> dict:
        return dict(self.batches[i])


class _Trainer(Seq2SeqTrainer):
    """Evaluates by translating, as everything else here does."""

    judge = None

    def evaluate(self, *_args, **_kwargs) -> dict[str, float]:
        metrics = {"eval_bleu": self.judge()}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control,
                                                         metrics)
        return metrics


class _KeepEpochs(TrainerCallback):
    """Weights and a line of the learning curve after each epoch; says when to stop.

    Patience is counted on the stored curve, so that a resumed training stops at the same epoch.
    """

    def __init__(self, folder: Path, recipe: Recipe, described: dict) -> None:
        self.folder, self.recipe, self.described = folder, recipe, described

    def on_evaluate(self, args, state, control, metrics, model=None, **kwargs) -> None:
        epoch = round(state.epoch)
        losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
        trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
        # tied embeddings once; positions and the bias of zeros are made anew
        save_finetuned(model, epoch_path(self.folder, epoch),
                       model.state_dict().keys() - trained, self.described)
        curve = [record for record in read_curve(self.folder) if record["epoch"] < epoch]
        curve.append({"epoch": epoch, "updates": state.global_step, "bleu": metrics["eval_bleu"],
                      "training_loss": losses[-1] if losses else None})
        replace_files({self.folder / "curve.json": (json.dumps(curve, indent=1) + "\n").encode()})
        if finished(curve, self.recipe):
            control.should_training_stop = True
