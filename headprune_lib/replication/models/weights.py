"""Files of trained weights: tensors in float16, and the recipe that they were trained by."""

from __future__ import annotations

import hashlib
import json
import socket
import warnings
from pathlib import Path

from safetensors import SafetensorError, safe_open

from headprune_lib.replication.data import file_sha256
from headprune_lib.replication.lazy import safetensors_torch, torch
from headprune_lib.replication.store.files import replace_files, set_aside

BFLOAT16 = "bfloat16 autocast"
FLOAT32 = "float32"
"""The precisions that a recipe may have: mixed, or plain."""

_TRAINED_IN = "trained_in"
TRAINING_VERSION = 1
"""Version in every recipe; bumped when the same parameters would give other weights."""


def working_precision(precision: str, device: str | torch.device) -> str:
    """The precision in which a device carries out a recipe's precision.

    It is float32 on a CPU without bfloat16 arithmetic, which would emulate mixed precision: that
    takes fifty times as long (measured on one with AVX2 only) and is no more exact.
    """
    if precision != BFLOAT16 or torch.device(device).type != "cpu":
        return precision
    capabilities = getattr(torch.cpu, "get_capabilities", dict)()  # not in torch before 2.10
    has_it = any(value for name, value in capabilities.items() if "bf16" in name)
    return precision if has_it else FLOAT32


def save_trained(model: torch.nn.Module, path: Path, recipe: dict) -> None:
    """Write the trained parameters, rounded to float16, with their recipe.

    A tensor that two names share is written once; untrained ones are computed or the base's. If
    another precision than the recipe's was used, the file says which.
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
    """Write tensors, rounded to float16, with their recipe and, beside them, their SHA-256.

    All is written or nothing.
    """
    weights = {name: tensor.to(torch.float16).contiguous() for name, tensor in weights.items()}
    # a single entry of metadata: the order of several differs between processes
    content = safetensors_torch.save(weights, {"recipe": json.dumps(recipe, sort_keys=True)})
    replace_files(with_sha256(path, content))


def with_sha256(path: Path, content: bytes) -> dict[Path, bytes]:
    """A file of weights and the one beside it with its SHA-256, path -> content."""
    return {path: content, _noted(path): f"{hashlib.sha256(content).hexdigest()}\n".encode()}


def _noted(path: Path) -> Path:
    """The file beside weights with the SHA-256 that they were written with."""
    return path.with_name(f"{path.name}.sha256")


def read_weights(path: Path, recipe: dict) -> dict[str, torch.Tensor] | None:
    """The tensors of a file as float32, or None if there is no usable file.

    A damaged file, or one of another recipe, is set aside under another name with a warning.
    """
    if not path.is_file():
        return None
    noted = _noted(path)
    try:
        with safe_open(path, "pt") as file:
            stored = _recipe_in(file)
            if stored != recipe:
                raise ValueError(f"trained by another recipe: {stored}, wanted {recipe}")
            # weights of before there were such files are read without it
            if noted.is_file() and noted.read_text().strip() != file_sha256(path):
                raise ValueError(f"its SHA-256 is not the one in {noted.name}")
            return {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, OSError) as error:
        aside = ", ".join(file_aside.name for file_aside in set_aside(path, noted))
        warnings.warn(f"{path} cannot be used ({error}) and was set aside as {aside}", stacklevel=2)
        return None


def load_trained(
    model: torch.nn.Module, weights: dict[str, torch.Tensor], what: str, *, whole: bool = False
) -> torch.nn.Module:
    """The model in evaluation mode, with stored tensors in place of its own.

    Raises ValueError for a tensor that does not fit or, with ``whole``, for a trainable parameter
    without one; ``what`` is the model's name in the message.
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
    """The recipe in a file of weights; None, with a warning, if the file cannot be read."""
    try:
        with safe_open(path, "np") as file:
            return _recipe_in(file)
    except (SafetensorError, ValueError, OSError) as error:
        warnings.warn(
            f"{path} is damaged ({error}) and not used. If committed, restore it with git",
            stacklevel=2,
        )
        return None


def _recipe_in(file: safe_open) -> dict | None:
    recipe = json.loads((file.metadata() or {}).get("recipe", "null"))
    return recipe and {name: value for name, value in recipe.items() if name != _TRAINED_IN}


def check_worker_has(path: Path | None, sha256: str) -> None:
    """Raises FileNotFoundError if a worker of a cluster lacks the weights to measure with.

    It would otherwise train new ones, and measure something else.
    """
    digest = file_sha256(path) if path is not None and path.is_file() else None
    if digest != sha256:
        raise FileNotFoundError(
            f"{socket.gethostname()} has {'other' if digest else 'no'} weights"
            f"{'' if path is None else f' at {path}'}, expected SHA-256 {sha256[:12]}…. Give the "
            "worker the same HEADPRUNE_CACHE and HEADPRUNE_MODELS, on a shared file system, as the "
            "machine that asks"
        )
