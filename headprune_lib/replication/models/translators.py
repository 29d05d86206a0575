"""Translators: subword pieces, training from scratch, stored weights, retraining."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import sentencepiece
from numpy.typing import NDArray

from headprune_lib.replication.data import TRANSLATION_TASKS, Texts, file_sha256
from headprune_lib.replication.lazy import (
    generation,
    sacrebleu,
    setups,
    torch,
    training,
    transformers,
    utils,
)
from headprune_lib.replication.metrics import sentence_counts
from headprune_lib.replication.models import fairseq
from headprune_lib.replication.models.pretrained import load_own
from headprune_lib.replication.models.weights import (
    TRAINING_VERSION,
    load_trained,
    read_weights,
    save_trained,
    stored_recipe,
    with_sha256,
    write_weights,
)
from headprune_lib.replication.paths import models_root, trained_root
from headprune_lib.replication.profiles import (
    POST_NORM,
    FairseqRecipe,
    Profile,
    Published,
    Recipe,
    Shape,
    TranslatorRecipe,
)
from headprune_lib.replication.store.files import locked, replace_files

PAD, UNKNOWN, END = 0, 1, 2

Rows = Sequence[Sequence[int]]
"""Token ids, one row per sentence."""


# --- pieces ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pieces:
    """Conversion between text and a model's subword ids; BLEU is sacrebleu's own.

    :class:`~headprune_lib.replication.models.fairseq.MosesPieces` has the same methods, and another
    BLEU.

    Attributes:
        sources: source texts -> the ids of each, with the end mark.
        targets: the same for target texts.
        texts: the ids of each translation, without end mark -> its text.
    """

    sources: Callable[[Sequence[str]], list[list[int]]]
    targets: Callable[[Sequence[str]], list[list[int]]]
    texts: Callable[[Rows], list[str]]

    def counts(self, rows: Rows, references: Sequence[str]) -> dict[str, NDArray]:
        """Counts (n, 10) of translations and their references, for each way to compute BLEU.

        ``""`` has those of the main BLEU, ``BESIDE`` those of sacrebleu's own where the main one
        differs from it.
        """
        return {"": sentence_counts(self.texts(rows), references)}


AnyPieces = Pieces | fairseq.MosesPieces


def train_vocabulary(pairs: Texts, size: int) -> bytes:
    """Train a SentencePiece unigram model on both sides of the text (one thread: reproducible)."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*pairs.sources, *pairs.targets]),
        model_writer=model,
        vocab_size=size,
        character_coverage=1.0,
        pad_id=PAD,
        unk_id=UNKNOWN,
        eos_id=END,
        bos_id=-1,
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


def _sentence_pieces(vocabulary: sentencepiece.SentencePieceProcessor) -> Pieces:
    """The pieces of a SentencePiece vocabulary that both languages share."""

    def encode(texts: Sequence[str]) -> list[list[int]]:
        return [[*pieces, END] for pieces in vocabulary.encode(list(texts))]

    return Pieces(encode, encode, lambda rows: vocabulary.decode([list(row) for row in rows]))


def _vocabulary_in(path: Path) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes())


@dataclass(frozen=True)
class Translator:
    """A trained model with its pieces, the hash of its weights and its learning curve."""

    task: str
    model: transformers.PreTrainedModel
    pieces: AnyPieces
    weights_sha256: str
    curve: list[dict]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each source text with the end mark.

        Raises:
            ValueError: an empty text, or one longer than the model has positions for.
        """
        return self._checked(texts, self.pieces.sources(texts))

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """As :meth:`encode`, for texts in the target language."""
        return self._checked(texts, self.pieces.targets(texts))

    def _checked(self, texts: Sequence[str], rows: list[list[int]]) -> list[list[int]]:
        longest = self.model.config.max_position_embeddings
        for number, (text, row) in enumerate(zip(texts, rows, strict=True), 1):
            if not text.strip():
                raise ValueError(f"line {number} is empty. Give a sentence, or leave the line out")
            if len(row) > longest:
                raise ValueError(
                    f"line {number} has {len(row)} tokens, and the model has positions "
                    f"for {longest}. Split it ({text[:40]!r}...)"
                )
        return rows

    def translate(self, texts: Sequence[str], *, beams: int = 1) -> list[str]:
        """Translations of texts, in their order."""
        return self.pieces.texts(generation.generate(self.model, self.encode(texts), beams=beams))


# --- training -------------------------------------------------------------------------------------


def new_model(shape: Shape, seed: int, kernel: str = "sdpa") -> transformers.PreTrainedModel:
    """A model with random weights: sinusoidal positions, relu, all embeddings tied."""
    torch.manual_seed(seed)
    common = {
        "vocab_size": shape.vocabulary,
        "d_model": shape.width,
        "encoder_layers": shape.layers,
        "decoder_layers": shape.layers,
        "encoder_attention_heads": shape.heads,
        "decoder_attention_heads": shape.heads,
        "encoder_ffn_dim": shape.feed_forward,
        "decoder_ffn_dim": shape.feed_forward,
        "dropout": shape.dropout,
        "activation_function": "relu",
        "max_position_embeddings": 512,
        "scale_embedding": True,
        "pad_token_id": PAD,
        "eos_token_id": END,
        "bos_token_id": None,
        "forced_eos_token_id": None,
        "attn_implementation": kernel,
    }
    if shape.norm == "after":
        return transformers.MarianMTModel(
            transformers.MarianConfig(
                **common, share_encoder_decoder_embeddings=True, decoder_start_token_id=PAD
            )
        )
    # M2M100 gives padding no position: if the decoder started with padding, it would count
    # positions differently in training, where the start is part of the text, than in generation
    return transformers.M2M100ForConditionalGeneration(
        transformers.M2M100Config(
            **common,
            attention_dropout=0.0,
            activation_dropout=0.0,
            encoder_layerdrop=0.0,
            decoder_layerdrop=0.0,
            decoder_start_token_id=END,
        )
    )


def token_batches(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    max_tokens: int,
    seed: int,
    start: int,
) -> list[dict[str, torch.Tensor]]:
    """Batches of pairs of similar length, of at most ``max_tokens`` target tokens with padding.

    ``start`` is the decoder's start token.
    """
    order = list(range(len(sources)))
    random.Random(seed).shuffle(order)  # equal lengths must not follow the order of the text
    order.sort(key=lambda i: (len(targets[i]), len(sources[i])))
    groups: list[list[int]] = [[]]
    for i in order:
        if groups[-1] and len(targets[i]) * (len(groups[-1]) + 1) > max_tokens:
            groups.append([])
        groups[-1].append(i)
    return [
        utils.teacher_forced([sources[i] for i in group], [targets[i] for i in group], PAD, start)
        for group in groups
    ]


def full_recipe(
    task: str, recipe: TranslatorRecipe, seed: int, *, final: bool = False, registered: bool = False
) -> dict:
    """Everything that the weights after an epoch depend on or, with ``final``, the final weights.

    With ``registered``, for the text that the committed results were measured on.
    """
    version = {"version": TRAINING_VERSION, "task": task}
    if isinstance(recipe, Published):
        return {**version, **fairseq.described(recipe)}
    described, text = dataclasses.asdict(recipe), TRANSLATION_TASKS[task]
    if isinstance(recipe, FairseqRecipe):
        checksums, described["fairseq-train"] = text.checksums(), list(fairseq.RECIPE)
    else:
        checksums = text.registered if registered else text.checksums()
        if recipe.shape.norm == "after":  # as in recipes from before there was a choice
            del described["shape"]["norm"]
        if not final:
            del described["averaged_epochs"]
    return {**version, "data": checksums, "seed": seed, **described}


def file_name(task: str, model: str, seed: int) -> str:
    """The name of a training's folder and the stem of its committed files.

    >>> file_name("deen", "post-norm", 1), file_name("deen", "pre-norm", 2)
    ('deen-seed1', 'deen.pre-norm-seed2')
    """
    return f"{task}-seed{seed}" if model == POST_NORM else f"{task}.{model}-seed{seed}"


def committed_path(task: str, model: str, seed: int) -> Path:
    """The committed file of a training's final weights, there or not."""
    return models_root() / f"{file_name(task, model, seed)}.safetensors"


def training_folder(task: str, seed: int, model: str = POST_NORM) -> Path:
    """The folder of a training's checkpoints, epoch weights, vocabulary and learning curve."""
    return trained_root() / "training" / file_name(task, model, seed)


def epoch_path(folder: Path, epoch: int) -> Path:
    """The file of weights (float16) after an epoch."""
    return folder / f"epoch-{epoch:02d}.safetensors"


def update_path(folder: Path, update: int) -> Path:
    """The file of weights (float16) after a number of updates, within the first epochs."""
    return folder / f"update-{update:06d}.safetensors"


def kept_updates(folder: Path) -> list[int]:
    """The numbers of updates, ascending from 0, after which the first epochs' weights were kept."""
    return sorted(
        int(path.stem.removeprefix("update-")) for path in folder.glob("update-*.safetensors")
    )


def read_curve(folder: Path) -> list[dict]:
    """The learning curve: epoch, updates, validation BLEU, training loss; empty before epoch 1."""
    return _curve_in(folder / "curve.json")


def _curve_in(path: Path) -> list[dict]:
    return json.loads(path.read_text()) if path.is_file() else []


def best_epoch(curve: list[dict]) -> int:
    """The epoch with the highest validation BLEU, the first if tied."""
    return max(curve, key=lambda record: record["bleu"])["epoch"]


def finished(curve: list[dict], recipe: Recipe) -> bool:
    """Whether a training with this learning curve is finished."""
    epoch = len(curve)
    return epoch >= recipe.max_epochs or (
        epoch >= recipe.min_epochs and epoch - best_epoch(curve) >= recipe.patience
    )


def train(
    profile: Profile, task: str, seed: int, *, model: str = POST_NORM, retrain: bool = False
) -> Path:
    """Train a translation model until the validation BLEU stops rising; returns the folder.

    It contains ``vocabulary.spm``, ``epoch-NN.safetensors`` (float16) after each epoch,
    ``update-NNNNNN.safetensors`` before the first update and after each quarter of the first three
    epochs, ``curve.json`` (one record per epoch) and the last checkpoint, from which an interrupted
    run resumes.

    Where fairseq trains the model, the folder is that of :func:`fairseq.train_by_fairseq`.

    Raises:
        ValueError: the profile has no such task or model (the nearest names are suggested), the
            folder contains a training by another recipe, or the model is a published one.
    """
    recipe, folder = profile.translator(task, model), training_folder(task, seed, model)
    if isinstance(recipe, Published):
        raise ValueError(f"the model of {task} is a published one and is not trained here")
    wanted, device = full_recipe(task, recipe, seed), profile.device_here
    with locked(folder):  # a second process waits, and then uses the first one's weights
        if retrain and folder.exists():
            shutil.rmtree(folder)
        if isinstance(recipe, FairseqRecipe):
            return fairseq.train_by_fairseq(folder, recipe, wanted, seed, device)
        kept = [*folder.glob("epoch-*.safetensors"), *folder.glob("update-*.safetensors")]
        for path in sorted(kept):
            if stored_recipe(path) != wanted:
                raise ValueError(
                    f"{path} comes from a training by another recipe, or is damaged. Move "
                    f"{folder} away, or train again with --retrain"
                )
        if not finished(read_curve(folder), recipe):
            title = f"train {task}, {model}, seed {seed}"
            _train_here(folder, title, recipe, wanted, device)
    return folder


def _train_here(folder: Path, title: str, recipe: Recipe, wanted: dict, device: str) -> None:
    """Train with our own trainer; ``wanted`` is the full recipe, which is stored with the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    seed, splits = wanted["seed"], TRANSLATION_TASKS[wanted["task"]].load()
    stored, pairs = folder / "vocabulary.spm", splits["train"]
    if not stored.is_file():
        replace_files({stored: train_vocabulary(pairs, recipe.shape.vocabulary)})
    pieces = _sentence_pieces(_vocabulary_in(stored))
    # the attention kernel with the fastest backward pass on a CPU
    network = new_model(recipe.shape, seed, "eager")
    batches = token_batches(
        pieces.sources(pairs.sources),
        pieces.targets(pairs.targets),
        recipe.batch_tokens,
        seed,
        network.config.decoder_start_token_id,
    )
    judge = partial(validation_bleu, pieces=pieces, pairs=splits["valid"])
    training.fit(
        network,
        batches,
        folder,
        title,
        trainer=partial(training.JudgedTrainer, judge),
        data={"eval_dataset": batches[:1], "callbacks": [_keeping_weights(folder, recipe, wanted)]},
        **_settings(recipe, seed, device),
        epochs=recipe.max_epochs,
        learning_rate=recipe.learning_rate,
        warmup_steps=recipe.warmup,
        lr_scheduler_type="inverse_sqrt",
        eval_strategy="epoch",
        logging_strategy="steps",
        logging_steps=50,
    )


def _settings(recipe: Recipe, seed: int, device: str) -> dict[str, Any]:
    """The settings that training and retraining have in common."""
    return {
        "seed": seed,
        "device": device,
        "precision": recipe.precision,
        "label_smoothing_factor": recipe.label_smoothing,
        "adam_beta2": 0.98,
        "weight_decay": 0.0,
    }


def validation_bleu(model: torch.nn.Module, pieces: AnyPieces, pairs: Texts) -> float:
    """Greedy corpus BLEU of a model on pairs of sentences."""
    was_training = model.training
    model.eval()
    hypotheses = pieces.texts(generation.generate(model, pieces.sources(pairs.sources)))
    model.train(was_training)
    return sacrebleu.corpus_bleu(hypotheses, [list(pairs.targets)]).score


def _keeping_weights(folder: Path, recipe: Recipe, described: dict) -> transformers.TrainerCallback:
    """Callback that stores weights and a learning-curve record after each epoch, and ends training.

    Weights are also stored within the first epochs, in which the model learns most.

    Patience is counted on the stored curve, so that a resumed training stops at the same epoch.
    """

    class KeepWeights(transformers.TrainerCallback):
        def on_train_begin(self, args, state, control, model=None, **kwargs) -> None:
            if state.global_step == 0:
                save_trained(model, update_path(folder, 0), described)

        def on_step_end(self, args, state, control, model=None, **kwargs) -> None:
            quarter = max(1, round(state.max_steps / recipe.max_epochs / 4))
            if state.global_step <= 12 * quarter and state.global_step % quarter == 0:
                save_trained(model, update_path(folder, state.global_step), described)

        def on_evaluate(self, args, state, control, metrics, model=None, **kwargs) -> None:
            epoch = round(state.epoch)
            losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
            save_trained(model, epoch_path(folder, epoch), described)
            curve = [record for record in read_curve(folder) if record["epoch"] < epoch]
            curve.append(
                {
                    "epoch": epoch,
                    "updates": state.global_step,
                    "bleu": metrics["eval_bleu"],
                    "training_loss": losses[-1] if losses else None,
                }
            )
            replace_files({folder / "curve.json": (json.dumps(curve, indent=1) + "\n").encode()})
            if finished(curve, recipe):
                control.should_training_stop = True

    return KeepWeights()


# --- stored weights: the committed ones, else the cached ones, else trained now -------------------


FINAL = "final.safetensors"
"""The file with the mean weights of a training's last epochs, in its folder."""


def load_translator(
    profile: Profile,
    task: str,
    seed: int | None = None,
    *,
    model: str = POST_NORM,
    kernel: str = "sdpa",
    epoch: int | None = None,
    update: int | None = None,
) -> Translator:
    """A trained model of a task, in evaluation mode: the stored one, else trained now.

    Args:
        seed: the profile's if not given.
        model: which of the task's models in the profile.
        kernel: attention implementation; ``"eager"`` is faster where a gradient is needed on a CPU.
        epoch: the weights after this epoch of the training, from the cache; the final ones, the
            mean of the last epochs', if not given.
        update: the weights after this many updates, in place of ``epoch``.

    Raises:
        ValueError: an unknown task, model, epoch or update, or weights that do not fit the
            vocabulary.
    """
    recipe = profile.translator(task, model)
    seed = profile.trainings(task, model)[0] if seed is None else seed
    final = epoch is None and update is None
    if isinstance(recipe, Published):
        if not final:
            raise ValueError(f"the published model of {task} has final weights only")
        path = fairseq.checkpoint_of(recipe)
        if recipe.folder:
            network, pieces, curve = *_load_own(recipe.folder), []
        else:
            pieces, curve = fairseq.public_translator(fairseq.archive_of(recipe)), []
            network = pieces.fairseq.model
    elif isinstance(recipe, FairseqRecipe):
        train(profile, task, seed, model=model)
        path = _weights(task, seed, model, recipe, epoch)
        if update is not None or not path.is_file():
            raise ValueError(f"fairseq stored weights after epochs 1 to {recipe.epochs} only")
        pieces, curve = fairseq.load_by_fairseq(recipe, path)
        network = pieces.fairseq.model
    else:
        path = _weights(task, seed, model, recipe, epoch, update)
        if final and path.parent != models_root():
            folder = train(profile, task, seed, model=model)
            final_weights(folder, task, recipe, seed)
        described = full_recipe(task, recipe, seed, final=final)
        network, pieces, curve = _load_ours(task, recipe, path, described)
    network.to(profile.device_here).eval().set_attn_implementation(kernel)
    return Translator(task, network, pieces, file_sha256(path), curve)


def _load_own(folder: Path) -> tuple[transformers.PreTrainedModel, Pieces]:
    """The user's own Marian model, without its search settings; it never generates padding."""
    model = load_own(folder)
    config = model.config
    model.final_logits_bias[:, config.pad_token_id] = -torch.inf
    model.generation_config = transformers.GenerationConfig(
        pad_token_id=config.pad_token_id,
        eos_token_id=config.eos_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return model, Pieces(
        lambda texts: tokenizer(list(texts)).input_ids,
        lambda texts: tokenizer(text_target=list(texts)).input_ids,
        lambda rows: tokenizer.batch_decode([list(row) for row in rows], skip_special_tokens=True),
    )


def _load_ours(
    task: str, recipe: Recipe, path: Path, described: dict
) -> tuple[transformers.PreTrainedModel, Pieces, list[dict]]:
    """A model from our own trainer, with the vocabulary and learning curve next to its weights."""
    if not path.is_file():
        what = path.stem.partition("-")[0]
        stored = sorted(each.stem for each in path.parent.glob(f"{what}-*.safetensors"))
        raise ValueError(
            f"no weights of {path.stem.replace('-', ' ')} are in {path.parent}, only of {stored}"
        )
    tensors = read_weights(path, described)
    if tensors is None:
        raise ValueError(
            f"{path} cannot be used and was set aside. Put the committed file back, or train again "
            f"with `headprune train {task} --retrain` and the same --model and --seed"
        )
    beside, curve = _beside(path)
    network, vocabulary = new_model(recipe.shape, 0), _vocabulary_in(beside)
    load_trained(network, tensors, str(recipe.shape), whole=True)  # positions are not stored
    if vocabulary.get_piece_size() != network.config.vocab_size:
        raise ValueError(
            f"{beside} has {vocabulary.get_piece_size()} pieces, and the weights in "
            f"{path} are for {network.config.vocab_size}: they are not from one training"
        )
    return network, _sentence_pieces(vocabulary), _curve_in(curve)


def _beside(path: Path) -> tuple[Path, Path]:
    """The vocabulary and the learning curve that belong to a file of weights."""
    if path.parent == models_root():
        return path.with_suffix(".spm"), path.with_suffix(".curve.json")
    return path.parent / "vocabulary.spm", path.parent / "curve.json"


def _weights(
    task: str,
    seed: int,
    model: str,
    recipe: TranslatorRecipe,
    epoch: int | None = None,
    update: int | None = None,
) -> Path:
    """Path of a training's weights, there or not; the final ones if no epoch or update is given."""
    folder = training_folder(task, seed, model)
    if isinstance(recipe, Published):
        return fairseq.checkpoint_of(recipe)
    if isinstance(recipe, FairseqRecipe):
        return fairseq.converted(folder, recipe.epochs if epoch is None else epoch)
    if update is not None:
        return update_path(folder, update)
    if epoch is not None:
        return epoch_path(folder, epoch)
    committed = committed_path(task, model, seed)
    return committed if committed.is_file() else folder / FINAL


def stored_weights(
    profile: Profile,
    task: str,
    seed: int,
    *,
    model: str = POST_NORM,
    epoch: int | None = None,
    update: int | None = None,
) -> Path | None:
    """The file of a training's weights: the committed one, else the cached one; nothing is trained.

    None if there is none, or only one of another recipe.

    Args:
        epoch: the weights after this epoch; the final ones if not given.
        update: the weights after this many updates, in place of ``epoch``.
    """
    recipe = profile.translator(task, model)
    path = _weights(task, seed, model, recipe, epoch, update)
    if not path.is_file():
        return None
    if isinstance(recipe, Published):
        return path
    wanted = full_recipe(task, recipe, seed, final=epoch is None and update is None)
    ours = isinstance(recipe, Recipe)
    recipe_found = stored_recipe(path) if ours else fairseq.stored_by_fairseq(path.parents[1])
    return path if recipe_found == wanted else None


def publish(profile: Profile, task: str, seed: int, model: str = POST_NORM) -> list[Path]:
    """Copy the final weights of a finished training to the folder of committed weights.

    Raises:
        ValueError: the model is fairseq's or a published one, too large to be committed.
    """
    recipe = profile.translator(task, model)
    if not isinstance(recipe, Recipe):
        raise ValueError(f"{model} of {task} can only be stored in the cache. Leave out --publish")
    folder = train(profile, task, seed, model=model)
    target, weights = committed_path(task, model, seed), final_weights(folder, task, recipe, seed)
    files = with_sha256(target, weights.read_bytes())
    for path, source in zip(_beside(target), _beside(weights), strict=True):
        files[path] = source.read_bytes()
    replace_files(files)
    return list(files)


def final_weights(folder: Path, task: str, recipe: Recipe, seed: int) -> Path:
    """The file of a finished training's final weights (float16), made now if there is none.

    They are the mean of those after the last epochs. A step size that decays with the square root
    of the updates leaves the weights fluctuating; their mean translates better than any of them
    (Vaswani et al. 2017, section 6.1, average the last five checkpoints of their base models).
    """
    path = folder / FINAL
    if path.is_file():
        return path
    last = [record["epoch"] for record in read_curve(folder)][-recipe.averaged_epochs :]
    described = full_recipe(task, recipe, seed)
    weights = [read_weights(epoch_path(folder, epoch), described) for epoch in last]
    if None in weights:
        raise ValueError(
            f"weights of the last epochs in {folder} are damaged. Train again with "
            f"`headprune train {task} --retrain` and the same --model and --seed"
        )
    mean = {name: torch.stack([each[name] for each in weights]).mean(0) for name in weights[0]}
    write_weights(mean, path, full_recipe(task, recipe, seed, final=True))
    return path


# --- retraining of a translator whose heads were removed ------------------------------------------

SEED = 1
"""Seed of every retraining: batches come in the same order, whichever heads are removed."""
WARMUP = 0.1
"""Share of the updates over which the learning rate rises, as in the encoder's fine-tuning."""


def recipe_of(profile: Profile) -> dict[str, Any]:
    """The settings that a retraining depends on, besides the model, its recipe and its text."""
    return {"seed": SEED, "warmup": WARMUP, "epochs": profile.recovery.epochs}


def retrained(
    subject: setups.TranslationSubject, model: torch.nn.Module, way: str, heads: str
) -> torch.nn.Module:
    """Train on the subject's training pairs, and return the model in evaluation mode.

    The recipe is the first training's, except for the learning rate: it rises to that training's
    last value, and falls linearly to 0. An interrupted training resumes from its last epoch.

    Args:
        model: the subject's, with some heads removed; changed in place.
        way: of training; only ``"all weights"``.
        heads: identifies which heads are removed.

    Raises:
        ValueError: the model was not trained by our own trainer, or another way is asked for.
    """
    if way != "all weights":
        raise ValueError(f"translators are trained again by 'all weights' only, not by {way!r}")
    profile, task, translator = subject.profile, subject.task, subject.translator
    name = profile.model_of(task)
    recipe = profile.translator(task, name)
    if not isinstance(recipe, Recipe):
        raise ValueError(
            f"{name} of {task} was not trained by headprune's own trainer. Give a model that was"
        )
    signature = [recipe_of(profile), translator.weights_sha256, heads, profile.device_here]
    folder = training.checkpoint_folder(f"{task}.{name}-again", signature)
    epochs = profile.recovery.epochs
    pairs = subject.split("train")
    batches = token_batches(
        translator.encode(pairs.sources),
        translator.encode_targets(pairs.targets),
        recipe.batch_tokens,
        SEED,
        translator.model.config.decoder_start_token_id,
    )
    with training.checkpoints_in(folder):
        return training.fit(
            model,
            batches,
            folder,
            f"train {task}, {name} again",
            **_settings(recipe, SEED, profile.device_here),
            epochs=epochs,
            learning_rate=last_rate(recipe, translator.curve[-1]["updates"]),
            warmup_steps=int(WARMUP * epochs * len(batches)),
        )


def last_rate(recipe: Recipe, updates: int) -> float:
    """The learning rate after a number of updates past warm-up: inverse square root decay."""
    return recipe.learning_rate * math.sqrt(recipe.warmup / max(updates, recipe.warmup))
