"""Trained translation models: the committed ones, else those of the cache, else trained now."""

from __future__ import annotations

import json
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file

from headprune_lib.replication.data import file_sha256
from headprune_lib.replication.paths import models_root
from headprune_lib.replication.profiles import (
    POST_NORM,
    FairseqRecipe,
    Profile,
    Published,
    Recipe,
)
from headprune_lib.replication.store.files import replace_files
from headprune_lib.replication.translation.by_fairseq import (
    converted,
    load_by_fairseq,
    stored_by_fairseq,
)
from headprune_lib.replication.translation.models import new_model, read_vocabulary
from headprune_lib.replication.translation.public import checkpoint_of, load_public
from headprune_lib.replication.translation.recipe import (
    file_name,
    final_recipe,
    full_recipe,
)
from headprune_lib.replication.translation.training import (
    epoch_path,
    read_curve,
    train,
    training_folder,
    update_path,
)
from headprune_lib.replication.translation.translator import SentencePieces, Translator
from headprune_lib.replication.weights import read_weights, stored_recipe, write_weights

FINAL = "final.safetensors"
"""In a training's folder, the mean of its last epochs."""


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
    """A trained model of a task, in evaluation mode.

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
    if isinstance(recipe, Published):
        if epoch is not None or update is not None:
            raise ValueError(f"of the published model of {task} there are final weights alone")
        return load_public(task, recipe, kernel, profile.device_here)
    if isinstance(recipe, FairseqRecipe):
        folder = train(profile, task, seed, model=model)
        weights = _epoch_by_fairseq(folder, recipe, epoch, update)
        return load_by_fairseq(profile, task, recipe, weights, kernel)
    return _trained_here(profile, task, recipe, (model, seed), (epoch, update), kernel)


def _trained_here(
    profile: Profile,
    task: str,
    recipe: Recipe,
    training: tuple[str, int],
    kept: tuple[int | None, int | None],
    kernel: str,
) -> Translator:
    """A model that our own trainer made.

    Args:
        training: name of the model, and seed.
        kept: epoch and update; the final weights if both are None.
    """
    model, seed = training
    described = full_recipe
    if kept == (None, None):
        described = final_recipe
        weights, vocabulary, curve = _final_files(profile, task, model, seed)
    else:
        folder = training_folder(task, seed, model)
        weights = _kept(folder, *kept)
        vocabulary, curve = folder / "vocabulary.spm", read_curve(folder)
    tensors = read_weights(weights, described(task, recipe, seed))
    if tensors is None:
        raise ValueError(
            f"{weights} cannot be used and was set aside; put the committed file "
            f"back, or train again with `headprune train {task} --retrain`"
        )
    pieces = read_vocabulary(vocabulary.read_bytes())
    network = with_weights(recipe, tensors, kernel)
    if pieces.get_piece_size() != network.config.vocab_size:
        raise ValueError(
            f"{vocabulary} has {pieces.get_piece_size()} pieces, the weights in "
            f"{weights} are for {network.config.vocab_size}: not of one training"
        )
    network, own = network.to(profile.device_here), SentencePieces(pieces)
    return Translator(task, network, own, file_sha256(weights), curve)


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

    None where there is none, or only one of another recipe.

    Args:
        epoch: the weights after this epoch; the final ones if not given.
        update: the weights after this many updates, in place of ``epoch``.
    """
    folder, recipe = training_folder(task, seed, model), profile.translator(task, model)
    if isinstance(recipe, Published):
        path = checkpoint_of(recipe)
        return path if path.is_file() else None
    if isinstance(recipe, FairseqRecipe):
        path = converted(folder, recipe.epochs if epoch is None else epoch)
        if not path.is_file():
            return None
        return path if stored_by_fairseq(folder) == full_recipe(task, recipe, seed) else None
    if epoch is None and update is None:
        committed = _committed(task, model, seed)
        path = committed if committed.is_file() else folder / FINAL
        wanted = final_recipe(task, recipe, seed)
    else:
        path = _kept_path(folder, epoch, update)
        wanted = full_recipe(task, recipe, seed)
    return path if path.is_file() and stored_recipe(path) == wanted else None


def with_weights(
    recipe: Recipe, tensors: dict[str, torch.Tensor], kernel: str
) -> transformers.PreTrainedModel:
    """A model of the recipe's shape that holds the tensors; positions are made anew.

    Raises:
        ValueError: a tensor that is missing, unknown or of another shape.
    """
    model = new_model(recipe.shape, 0, kernel)
    trained = {
        name: weight.shape for name, weight in model.named_parameters() if weight.requires_grad
    }
    given = {name: tensor.shape for name, tensor in tensors.items()}
    if trained != given:
        wrong = sorted(trained.items() ^ given.items())[:4]
        raise ValueError(f"the weights do not fit a model of {recipe.shape}: {wrong}")
    model.load_state_dict(tensors, strict=False)
    return model.eval()


def _epoch_by_fairseq(
    folder: Path, recipe: FairseqRecipe, epoch: int | None, update: int | None
) -> Path:
    path = converted(folder, recipe.epochs if epoch is None else epoch)
    if update is not None or not path.is_file():
        raise ValueError(f"fairseq kept weights after epochs 1 to {recipe.epochs} alone")
    return path


def publish(profile: Profile, task: str, seed: int, model: str = POST_NORM) -> list[Path]:
    """Copy the final weights of a finished training to where committed weights are kept.

    Raises:
        ValueError: the model is fairseq's, too large to be committed.
    """
    recipe = profile.translator(task, model)
    if not isinstance(recipe, Recipe):
        raise ValueError(f"{task}, {model} is trained by others: it is kept in the cache alone")
    folder = train(profile, task, seed, model=model)
    target = _committed(task, model, seed)
    files = {
        target: final_weights(folder, task, recipe, seed),
        target.with_suffix(".spm"): folder / "vocabulary.spm",
        target.with_suffix(".curve.json"): folder / "curve.json",
    }
    replace_files({path: source.read_bytes() for path, source in files.items()})
    return list(files)


def final_weights(folder: Path, task: str, recipe: Recipe, seed: int) -> Path:
    """The file of a finished training's final weights (float16), made now if there is none.

    They are the mean of those after the last epochs. A step size that decays with the square root
    of the updates leaves the weights moving about; their mean translates better than any of them
    (Vaswani et al. 2017, section 6.1, average the last five checkpoints of their base models).
    """
    path = folder / FINAL
    if not path.is_file():
        last = [record["epoch"] for record in read_curve(folder)][-recipe.averaged_epochs :]
        weights = [load_file(epoch_path(folder, epoch)) for epoch in last]
        mean = {
            name: torch.stack([one[name].float() for one in weights]).mean(0) for name in weights[0]
        }
        write_weights(mean, path, final_recipe(task, recipe, seed))
    return path


def _committed(task: str, model: str, seed: int) -> Path:
    """Where the committed file of a training's final weights is, if it has one."""
    return models_root() / f"{file_name(task, model, seed)}.safetensors"


def _final_files(
    profile: Profile, task: str, model: str, seed: int
) -> tuple[Path, Path, list[dict]]:
    """Weights, vocabulary and learning curve: the committed ones, else those of a training."""
    committed = _committed(task, model, seed)
    if committed.is_file():
        curve = json.loads(committed.with_suffix(".curve.json").read_text())
        return committed, committed.with_suffix(".spm"), curve
    folder = train(profile, task, seed, model=model)
    weights = final_weights(folder, task, profile.translator(task, model), seed)
    return weights, folder / "vocabulary.spm", read_curve(folder)


def _kept_path(folder: Path, epoch: int | None, update: int | None) -> Path:
    return epoch_path(folder, epoch) if update is None else update_path(folder, update)


def _kept(folder: Path, epoch: int | None, update: int | None) -> Path:
    """The weights that a training kept after an epoch or an update."""
    what, path = "epoch" if update is None else "update", _kept_path(folder, epoch, update)
    if not path.is_file():
        there = sorted(each.stem for each in folder.glob(f"{what}-*.safetensors"))
        raise ValueError(
            f"no weights of {path.stem.replace('-', ' ')} in {folder}; there are {there}"
        )
    return path
