"""Files of trained weights: tensors in float16, and the recipe that they were trained by."""

from __future__ import annotations

import json
import socket
import warnings
from functools import lru_cache
from pathlib import Path

from safetensors import SafetensorError, safe_open

from headprune_lib.replication.data import file_sha256
from headprune_lib.replication.lazy import safetensors_torch, torch
from headprune_lib.replication.store.files import replace_files, set_aside

BFLOAT16 = "bfloat16 autocast"
FLOAT32 = "float32"
"""What a recipe says of precision: mixed, or plain."""

_TRAINED_IN = "trained_in"
TRAINING_VERSION = 1
"""Of every recipe; bumped when the same parameters would give other weights."""


def working_precision(precision: str, device: str | torch.device) -> str:
    """What a recipe's precision is carried out in on a device.

    float32 on a processor that has no bfloat16 arithmetic: it would emulate mixed precision, which
    takes fifty times as long (measured on one with AVX2 alone) and is no more exact.
    """
    if precision != BFLOAT16 or torch.device(device).type != "cpu":
        return precision
    capabilities = getattr(torch.cpu, "get_capabilities", dict)()  # not in torch before 2.10
    has_it = any(value for name, value in capabilities.items() if "bf16" in name)
    return precision if has_it else FLOAT32


def save_trained(model: torch.nn.Module, path: Path, recipe: dict) -> None:
    """Write the parameters that were trained, rounded to float16, and the recipe with them.

    A tensor that two names share is written once; what is not trained is made anew, or the base's.
    Where the recipe's precision was not worked in, the file says which one was.
    """
    precision = recipe.get("precision", FLOAT32)
    worked_in = working_precision(precision, next(model.parameters()).device)
    write_weights(
        {
            name: weight.detach()
            for name, weight in model.named_parameters()
            if weight.requires_grad
        },
        path,
        recipe if worked_in == precision else {**recipe, _TRAINED_IN: worked_in},
    )


def write_weights(weights: dict[str, torch.Tensor], path: Path, recipe: dict) -> None:
    """Write tensors rounded to float16, and the recipe with them; all or nothing."""
    weights = {name: tensor.to(torch.float16).contiguous() for name, tensor in weights.items()}
    # one entry: the order of several is not the same in each process
    replace_files(
        {path: safetensors_torch.save(weights, {"recipe": json.dumps(recipe, sort_keys=True)})}
    )


def read_weights(path: Path, recipe: dict) -> dict[str, torch.Tensor] | None:
    """The tensors of a file as float32, or None where there is none that can be used.

    A damaged file, or one of another recipe, is set aside under another name with a warning.
    """
    if not path.is_file():
        return None
    try:
        with safe_open(path, "pt") as file:
            stored = _recipe_in(file)
            if stored != recipe:
                raise ValueError(f"trained by another recipe: {stored}, wanted {recipe}")
            return {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, OSError) as error:
        aside = ", ".join(file_aside.name for file_aside in set_aside(path))
        warnings.warn(
            f"{path} cannot be used ({error}); set aside as {aside}, trained again", stacklevel=2
        )
        return None


def load_trained(
    model: torch.nn.Module, weights: dict[str, torch.Tensor], what: str, *, whole: bool = False
) -> torch.nn.Module:
    """The model in evaluation mode, with stored tensors in place of its own.

    Args:
        what: names the model, for the message.
        whole: whether every parameter must be among them.

    Raises:
        ValueError: a tensor is missing, or unknown to the model, or of another shape.
    """
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    asked = {name for name, weight in model.named_parameters() if weight.requires_grad}
    if whole and (missing := sorted(asked - weights.keys())):
        raise ValueError(f"the trained weights do not fit {what}: {', '.join(missing[:4])} missing")
    for name, tensor in weights.items():
        if shapes.get(name) != tuple(tensor.shape):
            raise ValueError(
                f"the trained weights do not fit {what}: {name} has shape {tuple(tensor.shape)}, "
                f"the model has {shapes.get(name, 'no such tensor')}"
            )
    model.load_state_dict(weights, strict=False)
    return model.eval()


def stored_recipe(path: Path) -> dict | None:
    """The recipe in a file of weights; None, with a warning, where the file cannot be read."""
    try:
        with safe_open(path, "np") as file:
            return _recipe_in(file)
    except (SafetensorError, ValueError, OSError) as error:
        warnings.warn(
            f"{path} is damaged ({error}) and is not used; restore it with git", stacklevel=2
        )
        return None


def _recipe_in(file: safe_open) -> dict | None:
    recipe = json.loads((file.metadata() or {}).get("recipe", "null"))
    return recipe and {name: value for name, value in recipe.items() if name != _TRAINED_IN}


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file of weights; a file that stays as it is is read once a process."""
    state = path.stat()
    return _sha256(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=256)
def _sha256(path: Path, _modified: int, _size: int) -> str:
    return file_sha256(path)


def check_worker_has(path: Path | None, sha256: str) -> None:
    """Raises FileNotFoundError where a worker of a cluster has not the weights to measure with.

    It would train them anew, and measure something else.
    """
    digest = sha256_of(path) if path is not None and path.is_file() else None
    if digest != sha256:
        raise FileNotFoundError(
            f"{socket.gethostname()} has {'other' if digest else 'no'} weights"
            f"{'' if path is None else f' at {path}'}, expected SHA-256 {sha256[:12]}…: a worker needs "
            "the folders of the machine that asks; give it the same HEADPRUNE_CACHE and "
            "HEADPRUNE_MODELS on a shared file system"
        )
