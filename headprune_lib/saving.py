"""Pruned models as folders that load again; no pickles."""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file, load_model, save_model
from transformers import PreTrainedModel

from headprune_lib.fairseq_import.prenorm import PreNormTranslator
from headprune_lib.heads import find_heads
from headprune_lib.pruning import keep_heads

_RECORD, _WEIGHTS = "headprune.json", "model.safetensors"


def save_pruned(model: PreTrainedModel, folder: str | os.PathLike) -> Path:
    """Write ``config.json``, ``headprune.json`` (heads left) and ``model.safetensors``.

    Raises:
        FileExistsError: the folder holds something already; nothing is overwritten.
    """
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty; choose a new folder for the pruned model")
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "model_class": type(model).__name__,
        "kept": {block.path: list(block.kept) for block in find_heads(model)},
    }
    model.config.save_pretrained(folder)
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.save_pretrained(folder)
    save_model(model, str(folder / _WEIGHTS), metadata={"format": "pt"})  # tied weights once
    # last: a folder without it was not written to the end, and load_pruned says so
    (folder / _RECORD).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    return folder


def load_pruned(
    folder: str | os.PathLike, *, device: str | torch.device = "cpu"
) -> PreTrainedModel:
    """The model that :func:`save_pruned` wrote, in evaluation mode.

    Raises:
        FileNotFoundError: no complete pruned model in the folder.
        ValueError: the weights are damaged or belong to another model.
    """
    folder = Path(folder)
    for name in ("config.json", _WEIGHTS, _RECORD):
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"{folder / name} is missing: not a folder that save_pruned wrote to the end"
            )
    try:
        record = json.loads((folder / _RECORD).read_text())
        weights = load_file(folder / _WEIGHTS)
    except (json.JSONDecodeError, SafetensorError) as error:
        raise ValueError(f"{folder} is damaged ({error}); save the pruned model again") from error
    model_class = getattr(transformers, record["model_class"], None)
    if record["model_class"] == PreNormTranslator.__name__:
        model_class = PreNormTranslator
    if model_class is None:
        raise ValueError(
            f"{folder / _RECORD} names the class {record['model_class']!r}, which transformers "
            f"{transformers.__version__} does not have"
        )
    model = model_class(model_class.config_class.from_pretrained(folder))
    for block in find_heads(model):
        keep_heads(model, block, record["kept"][block.path])
    model.to(next(weight.dtype for weight in weights.values() if weight.is_floating_point()))
    try:
        load_model(model, folder / _WEIGHTS)
    except RuntimeError as error:
        raise ValueError(
            f"the weights in {folder} do not fit its headprune.json: {error}"
        ) from None
    if (folder / transformers.utils.GENERATION_CONFIG_NAME).is_file():
        model.generation_config = transformers.GenerationConfig.from_pretrained(folder)
    return model.to(device).eval()
