"""Train an encoder-decoder from nothing with transformers' ``Trainer``; resumes after a kill."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import sacrebleu
from torch import nn
from transformers import TrainerCallback, TrainingArguments

from headprune_lib.replication.data import TRANSLATION_TASKS, Texts
from headprune_lib.replication.generation.greedy import generate
from headprune_lib.replication.paths import trained_root
from headprune_lib.replication.profiles import (
    POST_NORM,
    FairseqRecipe,
    Profile,
    Published,
    Recipe,
)
from headprune_lib.replication.store.files import locked, replace_files
from headprune_lib.replication.training import BatchTrainer, arguments, run, whole_batch
from headprune_lib.replication.translation.batches import token_batches
from headprune_lib.replication.translation.by_fairseq import train_by_fairseq
from headprune_lib.replication.translation.models import (
    encode,
    new_model,
    read_vocabulary,
    train_vocabulary,
)
from headprune_lib.replication.translation.recipe import file_name, full_recipe
from headprune_lib.replication.translation.translator import Pieces, SentencePieces
from headprune_lib.replication.weights import save_trained, stored_recipe


def training_folder(task: str, seed: int, model: str = POST_NORM) -> Path:
    """Checkpoints, weights of every epoch, vocabulary and learning curve of a training."""
    return trained_root() / "training" / file_name(task, model, seed)


def epoch_path(folder: Path, epoch: int) -> Path:
    """Weights (float16) after an epoch."""
    return folder / f"epoch-{epoch:02d}.safetensors"


def update_path(folder: Path, update: int) -> Path:
    """Weights (float16) after a number of updates, of the first epochs."""
    return folder / f"update-{update:06d}.safetensors"


def kept_updates(folder: Path) -> list[int]:
    """After how many updates of the first epochs weights are there, 0 first; in their order."""
    return sorted(
        int(path.stem.removeprefix("update-")) for path in folder.glob("update-*.safetensors")
    )


def read_curve(folder: Path) -> list[dict]:
    """The learning curve: epoch, updates, validation BLEU, training loss; empty before epoch 1."""
    path = folder / "curve.json"
    return json.loads(path.read_text()) if path.is_file() else []


def best_epoch(curve: list[dict]) -> int:
    """The epoch with the highest validation BLEU, the first of equals."""
    return max(curve, key=lambda record: record["bleu"])["epoch"]


def finished(curve: list[dict], recipe: Recipe) -> bool:
    """Whether a training with this learning curve has come to its end."""
    epoch = len(curve)
    return epoch >= recipe.max_epochs or (
        epoch >= recipe.min_epochs and epoch - best_epoch(curve) >= recipe.patience
    )


def train(
    profile: Profile, task: str, seed: int, *, model: str = POST_NORM, retrain: bool = False
) -> Path:
    """Train a translation model until the validation BLEU stops rising; returns the folder.

    It holds ``vocabulary.spm``, ``epoch-NN.safetensors`` (float16) after each epoch,
    ``update-NNNNNN.safetensors`` before the first update and after each quarter of the first three
    epochs, ``curve.json`` (one record an epoch) and the last checkpoint, from which a killed run
    goes on.

    Where fairseq trains the model, the folder is that of :func:`train_by_fairseq`.

    Raises:
        ValueError: the profile has no such task or model (the nearest names are suggested), the
            folder holds a training by another recipe, or others have trained the model.
    """
    recipe, folder = profile.translator(task, model), training_folder(task, seed, model)
    if isinstance(recipe, Published):
        raise ValueError(f"the model of {task} is a published one: nothing is to be trained")
    wanted = full_recipe(task, recipe, seed)
    with locked(folder):  # a second process waits, and then uses the first one's weights
        if retrain and folder.exists():
            shutil.rmtree(folder)
        if isinstance(recipe, FairseqRecipe):
            return train_by_fairseq(folder, recipe, wanted, seed, profile.device_here)
        _check_recipe(folder, wanted)
        if not ((curve := read_curve(folder)) and finished(curve, recipe)):
            _train_here(profile, task, (model, seed), recipe, wanted)
    return folder


def _train_here(
    profile: Profile, task: str, training: tuple[str, int], recipe: Recipe, wanted: dict
) -> None:
    """Train with our own trainer, into the training's folder.

    Args:
        training: name of the model, and seed.
        wanted: the recipe, as the files of weights describe it.
    """
    model, seed = training
    folder = training_folder(task, seed, model)
    folder.mkdir(parents=True, exist_ok=True)
    splits = TRANSLATION_TASKS[task].load()
    stored = folder / "vocabulary.spm"
    if not stored.is_file():
        replace_files({stored: train_vocabulary(splits["train"], recipe.shape.vocabulary)})
    vocabulary = read_vocabulary(stored.read_bytes())
    # the attention kernel with the fastest backward pass on a CPU
    network = new_model(recipe.shape, seed, "eager")
    pairs = splits["train"]
    batches = token_batches(
        encode(vocabulary, pairs.sources),
        encode(vocabulary, pairs.targets),
        recipe.batch_tokens,
        seed,
        network.config.decoder_start_token_id,
    )
    trainer = _Trainer(
        model=network,
        args=recipe_arguments(
            folder,
            recipe,
            seed,
            profile.device_here,
            epochs=recipe.max_epochs,
            learning_rate=recipe.learning_rate,
            warmup_steps=recipe.warmup,
            lr_scheduler_type="inverse_sqrt",
            eval_strategy="epoch",
            logging_steps=50,
        ),
        train_dataset=batches,
        eval_dataset=batches[:1],
        data_collator=whole_batch,
        callbacks=[_KeepWeights(folder, recipe, wanted)],
    )
    trainer.judge = lambda: validation_bleu(
        trainer.model, SentencePieces(vocabulary), splits["valid"]
    )
    run(trainer, f"train {task}, {model}, seed {seed}")


def _check_recipe(folder: Path, wanted: dict) -> None:
    """Raises ValueError where the folder holds weights of another recipe, or damaged ones."""
    for path in sorted([*folder.glob("epoch-*.safetensors"), *folder.glob("update-*.safetensors")]):
        if stored_recipe(path) != wanted:
            raise ValueError(
                f"{path} is of a training by another recipe, or damaged: move "
                f"{folder} away, or train anew with --retrain"
            )


def validation_bleu(model: nn.Module, pieces: Pieces, pairs: Texts) -> float:
    """Greedy corpus BLEU of a model on pairs of sentences."""
    was_training = model.training
    model.eval()
    hypotheses = pieces.texts(generate(model, pieces.sources(pairs.sources)))
    model.train(was_training)
    return sacrebleu.corpus_bleu(hypotheses, [list(pairs.targets)]).score


def recipe_arguments(
    folder: Path, recipe: Recipe, seed: int, device: str, **further
) -> TrainingArguments:
    """Label smoothing, optimiser and precision of a recipe; ``further`` as of :func:`arguments`."""
    return arguments(
        folder,
        seed=seed,
        device=device,
        precision=recipe.precision,
        label_smoothing_factor=recipe.label_smoothing,
        adam_beta2=0.98,
        weight_decay=0.0,
        **further,
    )


class _Trainer(BatchTrainer):
    """Evaluates by translating, as everything else here does."""

    judge = None

    def evaluate(self, *_args, **_kwargs) -> dict[str, float]:
        metrics = {"eval_bleu": self.judge()}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics


class _KeepWeights(TrainerCallback):
    """Weights and a line of the learning curve after each epoch; says when to stop.

    Weights also within the first epochs, in which the model learns most.

    Patience is counted on the stored curve, so that a resumed training stops at the same epoch.
    """

    def __init__(self, folder: Path, recipe: Recipe, described: dict) -> None:
        self.folder, self.recipe, self.described = folder, recipe, described

    def on_train_begin(self, args, state, control, model=None, **kwargs) -> None:
        if state.global_step == 0:
            save_trained(model, update_path(self.folder, 0), self.described)

    def on_step_end(self, args, state, control, model=None, **kwargs) -> None:
        quarter = max(1, round(state.max_steps / self.recipe.max_epochs / 4))
        if state.global_step <= 12 * quarter and state.global_step % quarter == 0:
            save_trained(model, update_path(self.folder, state.global_step), self.described)

    def on_evaluate(self, args, state, control, metrics, model=None, **kwargs) -> None:
        epoch = round(state.epoch)
        losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
        save_trained(model, epoch_path(self.folder, epoch), self.described)
        curve = [record for record in read_curve(self.folder) if record["epoch"] < epoch]
        curve.append(
            {
                "epoch": epoch,
                "updates": state.global_step,
                "bleu": metrics["eval_bleu"],
                "training_loss": losses[-1] if losses else None,
            }
        )
        replace_files({self.folder / "curve.json": (json.dumps(curve, indent=1) + "\n").encode()})
        if finished(curve, self.recipe):
            control.should_training_stop = True
