"""Encoder classifiers: batches, fine-tuning as in the paper, stored weights, retraining."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from headprune_lib.replication.data import TASKS, Texts
from headprune_lib.replication.lazy import (
    ablation,
    masking,
    setups,
    torch,
    training,
    transformers,
    utils,
)
from headprune_lib.replication.models.pretrained import (
    BASES,
    WEIGHTS,
    load_tokenizer,
    new_classifier,
)
from headprune_lib.replication.models.weights import (
    BFLOAT16,
    TRAINING_VERSION,
    load_trained,
    read_weights,
    save_trained,
    stored_recipe,
)
from headprune_lib.replication.paths import models_root, trained_root
from headprune_lib.replication.profiles import Finetuning, Profile
from headprune_lib.replication.store.files import Arrays, Journal, locked

# --- batches and predictions ----------------------------------------------------------------------


@dataclass(frozen=True)
class Batches:
    """Padded batches, by length unless an order was given, and a way back to the examples' order.

    ``order[i]`` is the index of the example at position i of the concatenated batches;
    ``n_truncated`` counts the examples that were longer than the limit.
    """

    batches: list[dict[str, torch.Tensor]]
    order: np.ndarray
    n_truncated: int
    sent_once: ClassVar = True  # to each worker, however many of its units need the batches

    def restore(self, values: np.ndarray) -> np.ndarray:
        """Put values along the last axis from batch order back into the examples' order."""
        restored = np.empty_like(values)
        restored[..., self.order] = values
        return restored


def make_batches(
    tokenizer, examples: Texts, batch_size: int, max_length: int, order: Sequence[int] | None = None
) -> Batches:
    """Tokenise texts or pairs, and batch them by length unless an ``order`` is given."""
    if not len(examples):
        raise ValueError("the dataset is empty: give at least one example")
    sides = [examples.texts] if examples.second is None else [examples.texts, examples.second]
    names = ["input_ids", "attention_mask"]
    # BERT tells the texts of a pair apart by token types; a single text needs none
    names += ["token_type_ids"] if len(sides) == 2 else []
    tokens = tokenizer(*map(list, sides))
    rows = [
        {name: tokens[name][i] for name in names if name in tokens} | {"labels": label}
        for i, label in enumerate(examples.labels)
    ]
    truncated = [i for i, row in enumerate(rows) if len(row["input_ids"]) > max_length]
    for i in truncated:
        short = tokenizer(*(side[i] for side in sides), truncation=True, max_length=max_length)
        rows[i] |= {name: short[name] for name in names if name in short}
    groups = (
        utils.by_length([row["input_ids"] for row in rows], batch_size)
        if order is None
        else [[*order[start : start + batch_size]] for start in range(0, len(order), batch_size)]
    )
    padded = transformers.DataCollatorWithPadding(tokenizer)
    batches = [dict(padded([rows[i] for i in members])) for members in groups]
    return Batches(batches, np.concatenate(groups), len(truncated))


def shuffled_by_length(examples: Texts, batch_size: int, generator: random.Random) -> list[int]:
    """A random order of examples in which each batch has similar lengths, to save padding."""
    order = list(range(len(examples)))
    generator.shuffle(order)
    window = 50 * batch_size
    sides = [*zip(*filter(None, (examples.texts, examples.second)), strict=True)]
    batches = []
    for start in range(0, len(order), window):
        near = sorted(order[start : start + window], key=lambda i: sum(map(len, sides[i])))
        batches += [near[i : i + batch_size] for i in range(0, len(near), batch_size)]
    # an incomplete batch must come last: make_batches cuts the order at multiples of the batch size
    short = [batch for batch in batches if len(batch) < batch_size]
    batches = [batch for batch in batches if len(batch) == batch_size]
    generator.shuffle(batches)
    return [i for batch in batches + short for i in batch]


def evaluate(model: torch.nn.Module, prepared: Batches, mask: masking.HeadTensors | None) -> Arrays:
    """``correct`` and ``loss`` (nats) of every example, shape ``(n,)``, under one mask."""

    def masked(batch: utils.Batch) -> torch.Tensor:
        (logits,) = ablation.masked_logits(model, [batch], mask)
        return logits

    outcomes = answered(masked, prepared.batches)
    return {name: prepared.restore(values) for name, values in outcomes.items()}


def answered(
    logits_of: Callable[[utils.Batch], torch.Tensor], batches: Sequence[utils.Batch]
) -> Arrays:
    """``correct`` and ``loss`` (nats) of every example, (..., n), where logits are (..., n, class).

    A batch for which memory has no room is halved.
    """
    oom_limit, joined = utils.OomLimit(), partial(torch.cat, dim=-2)
    logits = [utils.split_on_oom(logits_of, batch, joined, oom_limit) for batch in batches]
    correct, loss = answers(joined(logits), torch.cat([batch["labels"] for batch in batches]))
    return {"correct": correct, "loss": loss}


def answers(logits: torch.Tensor, labels: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """(..., n, class) x (n,) -> correct or not, and cross-entropy in nats, both (..., n)."""
    logits = logits.double()
    correct = (logits.argmax(-1) == labels).numpy()
    picked = logits.log_softmax(-1).gather(-1, labels.expand(logits.shape[:-1])[..., None])
    return correct, -picked[..., 0].numpy()


# --- fine-tuning ----------------------------------------------------------------------------------


def recipe(profile: Profile, seed: int, *, registered: bool = False) -> dict:
    """Everything a fine-tuning depends on: part of a result's signature and of the weight file.

    With ``registered``, for the text that the committed results were measured on.
    """
    task, base = TASKS[profile.task], BASES[profile.model]
    fields = {"task": task.whole, "base": base.checksums, "seed": seed}
    if base.classes:
        return fields
    return fields | {
        "version": TRAINING_VERSION,
        "data": task.registered if registered else task.checksums(profile.data),
        "precision": BFLOAT16,
        "frozen": profile.frozen,
        **dataclasses.asdict(profile.finetuning),
    }


def file_name(base: str, recipe: dict) -> str:
    """The stem of a committed fine-tuning's file name."""
    return f"{recipe['task']}-{base}-seed{recipe['seed']}"


def cached_name(base: str, recipe: dict) -> str:
    """The stem of a fine-tuning's file names in the cache; each recipe of a task has its own."""
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
    return f"{file_name(base, recipe)}-{digest[:8]}"


def training_folder(profile: Profile, recipe: dict) -> Path:
    """The folder of a fine-tuning's last checkpoint until it is done; one per recipe and device."""
    device = torch.device(profile.device_here).type  # each draws its own dropout masks
    suffix = "" if device == "cpu" else f"-{device}"
    return trained_root() / "training" / f"{cached_name(profile.model, recipe)}{suffix}"


def finetune(profile: Profile, seed: int) -> torch.nn.Module:
    """Train every weight that is not ``frozen``: AdamW, linear warm-up and decay, cross-entropy.

    An interrupted fine-tuning resumes from the last complete epoch, and ends with the same weights.
    """
    if BASES[profile.model].classes:
        raise ValueError(
            f"{profile.model} is fine-tuned already. Give the model that it was fine-tuned from"
        )
    model = new_classifier(profile.model, TASKS[profile.task].labels, seed, "eager")
    _freeze(profile, model)
    folder = training_folder(profile, recipe(profile, seed))
    title = f"fine-tune {profile.model} on {profile.task}, seed {seed}"
    return _trained(profile, model, profile.finetuning, seed, folder, title)


def _freeze(profile: Profile, model: torch.nn.Module) -> None:
    if profile.frozen == "embeddings":
        base = model.base_model
        getattr(base, "embeddings", base.get_input_embeddings()).requires_grad_(False)


def _trained(
    profile: Profile,
    model: torch.nn.Module,
    settings: Finetuning,
    seed: int,
    folder: Path,
    title: str,
) -> torch.nn.Module:
    """Return the model after training; dropout continues from the current random state."""
    train = TASKS[profile.task].split("train", profile.data).first(settings.n_train)
    batches = _Epochs(load_tokenizer(profile.model), train, settings, seed)
    return training.fit(
        model,
        batches,
        folder,
        title,
        seed=seed,
        device=profile.device_here,
        precision=BFLOAT16,
        epochs=settings.epochs,
        trainer=training.EpochTrainer,
        optim="adamw_torch",
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        warmup_steps=int(settings.warmup * settings.epochs * len(batches)),
    )


class _Epochs:
    """The batches of the current epoch, tokenised when it begins; each epoch has its own order."""

    def __init__(self, tokenizer, examples: Texts, settings: Finetuning, seed: int) -> None:
        size, shuffle = settings.batch_size, random.Random(seed)
        self.n_batches = math.ceil(len(examples) / size)
        self.orders = [shuffled_by_length(examples, size, shuffle) for _ in range(settings.epochs)]
        self.batched = partial(make_batches, tokenizer, examples, size, settings.max_length)

    def __len__(self) -> int:
        return self.n_batches

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return self.batches[i]

    def begin(self, epoch: int) -> None:
        self.batches = self.batched(self.orders[epoch]).batches


# --- stored weights: the committed ones, else the cached ones, else trained now -------------------


def finetuned(
    profile: Profile, seed: int | None = None, *, kernel: str = "sdpa", retrain: bool = False
) -> torch.nn.Module:
    """The fine-tuned classifier of a seed: the stored one, else trained now and stored.

    Weights are rounded to float16 before anything is measured with them, so that the file and the
    measurement refer to the same model. The eager kernel is faster where a gradient is needed on a
    CPU.
    """
    seed = profile.seed if seed is None else seed
    base, labels = BASES[profile.model], TASKS[profile.task].labels
    if base.classes and not retrain:
        model = new_classifier(profile.model, base.classes, seed, kernel).eval()
        return with_classes_at(model, base.places(labels)).to(profile.device_here)
    wanted = recipe(profile, seed)
    path = weights_path(profile.model, wanted)
    weights = None if retrain else read_weights(path, wanted)
    if weights is None:
        with locked(path), training.checkpoints_in(training_folder(profile, wanted)):
            # another process may have trained the model while this one waited
            weights = None if retrain else read_weights(path, wanted)
            if weights is None:
                save_trained(finetune(profile, seed), path, wanted)
                weights = read_weights(path, wanted)
    model = with_weights(profile.task, profile.model, seed, weights, kernel)
    return model.to(profile.device_here)


def with_classes_at(model: torch.nn.Module, places: Sequence[int]) -> torch.nn.Module:
    """Put the classes with these numbers first, second, and so on, by permuting the last layer."""
    if [*places] == sorted(places):
        return model
    ids = torch.arange(3, 11)[None]
    with torch.inference_mode():
        before = model(input_ids=ids).logits
    linear = [part for part in model.modules() if isinstance(part, torch.nn.Linear)]
    last = [part for part in linear if part.out_features == len(places)][-1:]
    with torch.no_grad():
        for weights in (weights for part in last for weights in part.parameters()):
            weights.copy_(weights[[*places]])
        if not torch.allclose(model(input_ids=ids).logits, before[:, [*places]], atol=1e-5):
            raise ValueError(
                f"the classes of {type(model).__name__} cannot be put into the task's order. "
                "Describe the task with the model's classes, in the model's order, in a task.yml"
            )
    return model


def weights_path(base: str, recipe: dict) -> Path:
    """Path of a recipe's weights: the committed file if it is of this recipe, else in the cache.

    A committed file of another recipe is left alone. The user's own classifier has its own file.
    """
    if BASES[base].classes:
        return BASES[base].folder() / WEIGHTS
    committed = models_root() / f"{file_name(base, recipe)}.safetensors"
    if committed.is_file() and stored_recipe(committed) == recipe:
        return committed
    return trained_root() / "models" / f"{cached_name(base, recipe)}.safetensors"


def with_weights(
    task: str, base: str, seed: int, weights: dict[str, torch.Tensor], kernel: str
) -> torch.nn.Module:
    """A classifier with fine-tuned tensors in place of the base's; see :func:`load_trained`."""
    return load_trained(new_classifier(base, TASKS[task].labels, seed, kernel), weights, base)


# --- retraining of a classifier whose heads were removed ------------------------------------------

Way = Literal["all weights", "LoRA"]
WAYS: tuple[Way, ...] = ("all weights", "LoRA")
SEED = 1
"""Seed of every retraining: sentences come in the same order, whichever heads are removed."""


def _again(profile: Profile, way: Way) -> Finetuning:
    """The fine-tuning's recipe with the epochs of ``recovery`` and, for LoRA, its learning rate."""
    recovery, finetuning = profile.recovery, profile.finetuning
    rate = finetuning.learning_rate if way == "all weights" else recovery.lora.learning_rate
    return dataclasses.replace(finetuning, epochs=recovery.epochs, learning_rate=rate)


def recipe_of(profile: Profile, way: Way) -> dict[str, Any]:
    """The settings that a retraining depends on, besides the model and its text."""
    again = {"seed": SEED, **dataclasses.asdict(_again(profile, way))}
    return again if way == "all weights" else again | {"rank": profile.recovery.lora.rank}


def retrained(
    subject: setups.EncoderSubject, model: torch.nn.Module, way: Way, heads: str
) -> torch.nn.Module:
    """Train on the subject's training sentences, and return the model in evaluation mode.

    An interrupted training resumes from its last epoch. Unlike stored weights, these are unrounded.

    Args:
        model: the subject's, changed in place; ``heads`` identifies those that were removed.
    """
    profile = subject.profile
    signature = [recipe_of(profile, way), way, subject.weights_sha256, heads, profile.device_here]
    folder = training.checkpoint_folder(f"{profile.task}-{profile.model}-again", signature)
    again, title = _again(profile, way), f"train {profile.model} again, {way}"
    torch.manual_seed(SEED)
    with training.checkpoints_in(folder):
        if way == "LoRA":
            wrapped = training.adapted(model, projections(model), profile.recovery.lora.rank)
            _trained(profile, wrapped, again, SEED, folder, title)
            return wrapped.merge_and_unload().eval()
        _freeze(profile, model)
        return _trained(profile, model, again, SEED, folder, title)


def projections(model: torch.nn.Module) -> list[str]:
    """Names of the attention and feed-forward linear layers in every encoder layer."""
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and ".encoder." in f".{name}"
    ]


# --- recipes, scored on held-out training examples: the test set stays unseen ---------------------

MOST_HELD_OUT = 1500


def last_examples(profile: Profile) -> Texts:
    """The last fifth of the training examples, at most 1,500, held out to score recipes on.

    Pairs are held out whole: one of their two texts may also be in a pair that is trained on.
    """
    train = TASKS[profile.task].split("train", profile.data)
    return train.last(min(MOST_HELD_OUT, len(train) // 5))


def outcomes(profile: Profile, finetuning: Finetuning, held_out: Texts, journal: Journal) -> Arrays:
    """Fine-tune on all but the last ``len(held_out)`` training examples; evaluate on these."""
    n_train = len(TASKS[profile.task].split("train", profile.data)) - len(held_out)
    tried = dataclasses.replace(finetuning, n_train=n_train)
    trying = dataclasses.replace(profile, finetuning=tried)
    wanted = recipe(trying, profile.seed)

    def answered() -> Arrays:
        model = finetune(trying, trying.seed)
        limit, tokenizer = tried.max_length, load_tokenizer(profile.model)
        return evaluate(model, make_batches(tokenizer, held_out, profile.batch_size, limit), None)

    with training.checkpoints_in(training_folder(trying, wanted)):
        return journal.unit(cached_name(profile.model, wanted), answered)
