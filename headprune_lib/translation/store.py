"""Trained translation models: the committed ones, else those of the cache, else trained now."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sentencepiece
import torch
import transformers

from headprune_lib.data import file_sha256
from headprune_lib.journal import replace_files
from headprune_lib.models import read_finetuned
from headprune_lib.naming import unknown
from headprune_lib.paths import models_root
from headprune_lib.profiles import Profile
from headprune_lib.translation.generation import detokenise, generate
from headprune_lib.translation.models import encode, new_model, read_vocabulary
from headprune_lib.translation.recipe import Recipe, full_recipe
from headprune_lib.translation.training import best_epoch, read_curve, train, training_folder


@dataclass(frozen=True)
class Translator:
    """A trained model with its vocabulary, the hash of its weights and its learning curve."""

    task: str
    model: transformers.MarianMTModel
    vocabulary: sentencepiece.SentencePieceProcessor
    weights_sha256: str
    curve: list[dict]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text with the end mark.

        Raises:
            ValueError: an empty text, or one longer than the model has positions for.
        """
        rows = encode(self.vocabulary, texts)
        longest = self.model.config.max_position_embeddings
        for number, (text, row) in enumerate(zip(texts, rows, strict=True), 1):
            if not text.strip():
                raise ValueError(f"line {number} is empty: give a sentence, or leave the line out")
            if len(row) > longest:
                raise ValueError(f"line {number} has {len(row)} pieces, the model has positions for "
                                 f"{longest}: split it ({text[:40]!r}...)")
        return rows

    def translate(self, texts: Sequence[str], *, beams: int = 1) -> list[str]:
        """Translations of texts, in their order."""
        return detokenise(self.vocabulary, generate(self.model, self.encode(texts), beams=beams))


def load_translator(profile: Profile, task: str, seed: int | None = None, *,
                    kernel: str = "sdpa", epoch: int | None = None) -> Translator:
    """The trained model of a task, in evaluation mode.

    Args:
        seed: the profile's first if not given.
        kernel: attention implementation; ``"eager"`` is faster where a gradient is needed on a CPU.
        epoch: the weights after this epoch of the training, from the cache; the best if not given.

    Raises:
        ValueError: an unknown task or epoch, or weights that do not fit the vocabulary.
    """
    if task not in profile.translation:
        raise ValueError(unknown("translation task", task, profile.translation))
    seed = profile.seed if seed is None else seed
    recipe = profile.translation[task]
    weights, vocabulary, curve = _files(profile, task, seed, epoch)
    tensors = read_finetuned(weights, full_recipe(task, recipe, seed))
    if tensors is None:
        raise ValueError(f"{weights} cannot be used and was set aside; put the committed file back, "
                         f"or train again with `headprune train {task} --retrain`")
    pieces = read_vocabulary(vocabulary.read_bytes())
    model = with_weights(recipe, tensors, kernel)
    if pieces.get_piece_size() != model.config.vocab_size:
        raise ValueError(f"{vocabulary} has {pieces.get_piece_size()} pieces, the weights in "
                         f"{weights} are for {model.config.vocab_size}: not of one training")
    return Translator(task, model.to(profile.device), pieces, file_sha256(weights), curve)


def with_weights(recipe: Recipe, tensors: dict[str, torch.Tensor],
                 kernel: str) -> transformers.MarianMTModel:
    """A model of the recipe's shape that holds the tensors; positions are made anew.

    Raises:
        ValueError: a tensor that is missing, unknown or of another shape.
    """
    model = new_model(recipe.shape, 0, kernel)
    trained = {name: weight.shape for name, weight in model.named_parameters()
               if weight.requires_grad}
    given = {name: tensor.shape for name, tensor in tensors.items()}
    if trained != given:
        wrong = sorted(trained.items() ^ given.items())[:4]
        raise ValueError(f"the weights do not fit a model of {recipe.shape}: {wrong}")
    model.load_state_dict(tensors, strict=False)
    return model.eval()


def publish(task: str, seed: int) -> list[Path]:
    """Copy the best epoch of a finished training to where committed weights are kept."""
    folder, target = training_folder(task, seed), models_root() / f"{task}-seed{seed}.safetensors"
    best = folder / f"epoch-{best_epoch(read_curve(folder)):02d}.safetensors"
    files = {target: best, target.with_suffix(".spm"): folder / "vocabulary.spm",
             target.with_suffix(".curve.json"): folder / "curve.json"}
    replace_files({path: source.read_bytes() for path, source in files.items()})
    return list(files)


def _files(profile: Profile, task: str, seed: int,
           epoch: int | None) -> tuple[Path, Path, list[dict]]:
    committed = models_root() / f"{task}-seed{seed}.safetensors"
    if epoch is None and committed.is_file():
        curve = json.loads(committed.with_suffix(".curve.json").read_text())
        return committed, committed.with_suffix(".spm"), curve
    folder = training_folder(task, seed) if epoch is not None else train(profile, task, seed)
    curve = read_curve(folder)
    number = best_epoch(curve) if epoch is None else epoch
    weights = folder / f"epoch-{number:02d}.safetensors"
    if not weights.is_file():
        there = sorted(path.stem for path in folder.glob("epoch-*.safetensors"))
        raise ValueError(f"no weights of epoch {number} in {folder}; there are {there}")
    return weights, folder / "vocabulary.spm", curve
