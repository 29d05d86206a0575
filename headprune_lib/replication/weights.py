"""Files of trained weights: tensors in float16, and the recipe that they were trained by."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from headprune_lib.replication.store.files import set_aside, whole_file

BFLOAT16 = "bfloat16 autocast"
"""What a recipe calls mixed precision; any other value is plain float32."""

TRAINING_VERSION = 1
"""Of every recipe; bumped when the same parameters would give other weights."""


def save_trained(model: nn.Module, path: Path, recipe: dict) -> None:
    """Write the parameters that were trained, rounded to float16, and the recipe with them.

    A tensor that two names share is written once; what is not trained is made anew, or the base's.
    """
    write_weights(
        {
            name: weight.detach()
            for name, weight in model.named_parameters()
            if weight.requires_grad
        },
        path,
        recipe,
    )


def write_weights(weights: dict[str, Tensor], path: Path, recipe: dict) -> None:
    """Write tensors rounded to float16, and the recipe with them; all or nothing."""
    weights = {name: tensor.to(torch.float16).contiguous() for name, tensor in weights.items()}
    with whole_file(path) as part:
        save_file(weights, part, metadata={"recipe": json.dumps(recipe, sort_keys=True)})


def read_weights(path: Path, recipe: dict) -> dict[str, Tensor] | None:
    """The tensors of a file as float32, or None where there is none that can be used.

    A damaged file, or one of another recipe, is set aside under another name with a warning.
    """
    if not path.is_file():
        return None
    try:
        with safe_open(path, "pt") as file:
            found = _recipe_in(file)
            if found != recipe:
                raise ValueError(f"trained by another recipe: {found}, wanted {recipe}")
            return {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, OSError) as error:
        (aside,) = set_aside(path)
        warnings.warn(
            f"{path} cannot be used ({error}); set aside as {aside.name}, trained again",
            stacklevel=2,
        )
        return None


def stored_recipe(path: Path) -> dict | None:
    """The recipe in a file of weights; None, with a warning, where the file cannot be read."""
    try:
        with safe_open(path, "pt") as file:
            return _recipe_in(file)
    except (SafetensorError, ValueError, OSError) as error:
        warnings.warn(
            f"{path} is damaged ({error}) and is not used; restore it with git", stacklevel=2
        )
        return None


def _recipe_in(file: safe_open) -> dict | None:
    return json.loads((file.metadata() or {}).get("recipe", "null"))
