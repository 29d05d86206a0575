"""Fine-tuned classifiers: a fresh one on a base, and the store of trained weights."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
import transformers
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from headprune_lib.bases import BASES
from headprune_lib.data import TASKS
from headprune_lib.journal import set_aside, whole_file
from headprune_lib.paths import cache_root, models_root


def new_classifier(base: str, labels: Sequence[str], seed: int, kernel: str = "sdpa") -> nn.Module:
    """The base with a fresh classification head; the head's weights depend on ``seed`` alone."""
    torch.manual_seed(seed)
    entry = BASES[base]
    kernel = "eager" if entry.kernel == "eager" else kernel
    names = {"id2label": dict(enumerate(labels)),
             "label2id": {label: number for number, label in enumerate(labels)}}
    if entry.build is not None:
        config = entry.build()
        config.update(names)
        return transformers.AutoModelForSequenceClassification.from_config(
            config, attn_implementation=kernel
        )
    with quiet():
        return transformers.AutoModelForSequenceClassification.from_pretrained(
            entry.folder(), **names, attn_implementation=kernel, dtype=torch.float32
        )


def weights_path(base: str, recipe: dict) -> Path:
    """Where the fine-tuning of a recipe is kept: the committed file if it is of it, else the cache.

    A committed file of another recipe is left alone.
    """
    committed = models_root() / f"{_title(base, recipe)}.safetensors"
    if committed.is_file() and stored_recipe(committed) == recipe:
        return committed
    return cache_root() / "models" / f"{cached_name(base, recipe)}.safetensors"


def cached_name(base: str, recipe: dict) -> str:
    """What the cache's files of a fine-tuning are called; recipes of one task have names of their own."""
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
    return f"{_title(base, recipe)}-{digest[:8]}"


def _title(base: str, recipe: dict) -> str:
    return f"{recipe['task']}-{base}-seed{recipe['seed']}"


def stored_recipe(path: Path) -> dict | None:
    """The recipe in a file of weights; None, with a warning, where the file cannot be read."""
    try:
        with safe_open(path, "pt") as file:
            return _recipe_in(file)
    except (SafetensorError, ValueError, OSError) as error:
        warnings.warn(f"{path} is damaged ({error}) and is not used; restore it with git",
                      stacklevel=2)
        return None


def _recipe_in(file: safe_open) -> dict | None:
    return json.loads((file.metadata() or {}).get("recipe", "null"))


def save_finetuned(model: nn.Module, path: Path, frozen: set[str], recipe: dict) -> None:
    """Write the tensors that are not ``frozen``, rounded to float16, and the recipe with them."""
    write_weights({name: tensor.detach() for name, tensor in model.state_dict().items()
                   if name not in frozen and tensor.is_floating_point()}, path, recipe)


def write_weights(weights: dict[str, Tensor], path: Path, recipe: dict) -> None:
    """Write tensors rounded to float16, and the recipe with them; all or nothing."""
    weights = {name: tensor.to(torch.float16).contiguous() for name, tensor in weights.items()}
    with whole_file(path) as part:
        save_file(weights, part, metadata={"recipe": json.dumps(recipe, sort_keys=True)})


def read_finetuned(path: Path, recipe: dict) -> dict[str, Tensor] | None:
    """The tensors of a fine-tuning as float32, or None where there is none that can be used.

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
        aside, = set_aside(path)
        warnings.warn(f"{path} cannot be used ({error}); set aside as {aside.name}, trained again",
                      stacklevel=2)
        return None


def with_weights(task: str, base: str, seed: int, weights: dict[str, Tensor], kernel: str) -> nn.Module:
    """A classifier in evaluation mode with fine-tuned tensors in place of the base's.

    Raises:
        ValueError: a tensor that the model does not have, or of another shape.
    """
    model = new_classifier(base, TASKS[task].labels, seed, kernel)
    state = model.state_dict()
    for name, tensor in weights.items():
        if name not in state or state[name].shape != tensor.shape:
            raise ValueError(
                f"the fine-tuned weights do not fit {base}: {name} has shape {tuple(tensor.shape)}, "
                f"the model has {tuple(state[name].shape) if name in state else 'no such tensor'}"
            )
    model.load_state_dict(weights, strict=False)
    return model.eval()


class quiet:
    """Inside, transformers neither warns (of a new head that is meant to be random) nor draws bars."""

    def __enter__(self):
        self.level = transformers.logging.get_verbosity()
        transformers.logging.set_verbosity_error()
        self.bars = transformers.logging.is_progress_bar_enabled()
        transformers.logging.disable_progress_bar()

    def __exit__(self, *_):
        transformers.logging.set_verbosity(self.level)
        if self.bars:
            transformers.logging.enable_progress_bar()
