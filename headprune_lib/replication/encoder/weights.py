"""Fine-tuned classifiers: the committed ones, else those of the cache, else trained now."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from headprune_lib.replication.data import TASKS
from headprune_lib.replication.encoder.recipe import cached_name, file_name, recipe
from headprune_lib.replication.encoder.training import finetune, training_folder
from headprune_lib.replication.paths import models_root, trained_root
from headprune_lib.replication.pretrained import new_classifier
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store.files import locked
from headprune_lib.replication.training import checkpoints_in
from headprune_lib.replication.weights import read_weights, save_trained, stored_recipe


def finetuned(
    profile: Profile, seed: int | None = None, *, kernel: str = "sdpa", retrain: bool = False
) -> nn.Module:
    """The fine-tuned classifier of a seed: the stored one, else trained now and stored.

    Weights are rounded to float16 before anything is measured with them, so that the file and the
    measurement speak of the same model.

    Args:
        seed: the profile's first if not given.
        kernel: attention implementation; ``"eager"`` is faster where a gradient is needed on a CPU.
        retrain: train again even if weights are stored.
    """
    seed = profile.seed if seed is None else seed
    wanted = recipe(profile, seed)
    path = weights_path(profile.model, wanted)
    weights = None if retrain else read_weights(path, wanted)
    if weights is None:
        with locked(path), checkpoints_in(training_folder(profile, wanted)):
            # another process may have trained the model while this one waited
            weights = None if retrain else read_weights(path, wanted)
            if weights is None:
                save_trained(finetune(profile, seed), path, wanted)
                weights = read_weights(path, wanted)
    model = with_weights(profile.task, profile.model, seed, weights, kernel)
    return model.to(profile.device_here)


def weights_path(base: str, recipe: dict) -> Path:
    """Where the fine-tuning of a recipe is kept: the committed file if it is of it, else the cache.

    A committed file of another recipe is left alone.
    """
    committed = models_root() / f"{file_name(base, recipe)}.safetensors"
    if committed.is_file() and stored_recipe(committed) == recipe:
        return committed
    return trained_root() / "models" / f"{cached_name(base, recipe)}.safetensors"


def with_weights(
    task: str, base: str, seed: int, weights: dict[str, Tensor], kernel: str
) -> nn.Module:
    """A classifier in evaluation mode with fine-tuned tensors in place of the base's.

    Raises:
        ValueError: a tensor that the model does not have, or of another shape.
    """
    model = new_classifier(base, TASKS[task].labels, seed, kernel)
    state = model.state_dict()
    for name, tensor in weights.items():
        if name not in state or state[name].shape != tensor.shape:
            raise ValueError(
                f"the fine-tuned weights do not fit {base}: {name} has shape "
                f"{tuple(tensor.shape)}, the model has "
                f"{tuple(state[name].shape) if name in state else 'no such tensor'}"
            )
    model.load_state_dict(weights, strict=False)
    return model.eval()
