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
from headprune_lib.translation.averaging import final_weights
from headprune_lib.translation.generation import detokenise, generate
from headprune_lib.translation.models import encode, new_model, read_vocabulary
from headprune_lib.translation.recipe import Recipe, final_recipe, full_recipe
from headprune_lib.translation.training import epoch_path, read_curve, train, training_folder


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
        seed: the profile's if not given.
        kernel: attention implementation; ``"eager"`` is faster where a gradient is needed on a CPU.
        epoch: the weights after this epoch of the training, from the cache; the final ones, the
            mean of the last epochs', if not given.

    Raises:
        ValueError: an unknown task or epoch, or weights that do not fit the vocabulary.
    """
    if task not in profile.translation:
        raise ValueError(unknown("translation task", task, profile.translation))
    seed = profile.translation_seed if seed is None else seed
    recipe = profile.translation[task]
    weights, vocabulary, curve = (_final_files(profile, task, seed) if epoch is None else
                                  _epoch_files(task, seed, epoch))
    described = final_recipe if epoch is None else full_recipe
    tensors = read_finetuned(weights, described(task, recipe, seed))
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


def publish(profile: Profile, task: str, seed: int) -> list[Path]:
    """Copy the final weights of a finished training to where committed weights are kept."""
    folder = train(profile, task, seed)
    target = models_root() / f"{task}-seed{seed}.safetensors"
    files = {target: final_weights(folder, task, profile.translation[task], seed),
             target.with_suffix(".spm"): folder / "vocabulary.spm",
             target.with_suffix(".curve.json"): folder / "curve.json"}
    replace_files({path: source.read_bytes() for path, source in files.items()})
    return list(files)


def _final_files(profile: Profile, task: str, seed: int) -> tuple[Path, Path, list[dict]]:
    """Weights, vocabulary and learning curve: the committed ones, else those of a training."""
    committed = models_root() / f"{task}-seed{seed}.safetensors"
    if committed.is_file():
        curve = json.loads(committed.with_suffix(".curve.json").read_text())
        return committed, committed.with_suffix(".spm"), curve
    folder = train(profile, task, seed)
    weights = final_weights(folder, task, profile.translation[task], seed)
    return weights, folder / "vocabulary.spm", read_curve(folder)


def _epoch_files(task: str, seed: int, epoch: int) -> tuple[Path, Path, list[dict]]:
    folder = training_folder(task, seed)
    if not epoch_path(folder, epoch).is_file():
        there = sorted(path.stem for path in folder.glob("epoch-*.safetensors"))
        raise ValueError(f"no weights of epoch {epoch} in {folder}; there are {there}")
    return epoch_path(folder, epoch), folder / "vocabulary.spm", read_curve(folder)
