"""Pruned models as folders that load again; no pickles."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file, load_model, save_model
from torch import nn
from transformers import PreTrainedModel

from headprune_lib.architectures import REGISTERED, is_released
from headprune_lib.blocks import AttentionBlock
from headprune_lib.heads import find_heads
from headprune_lib.model_classes import class_named
from headprune_lib.records import (
    RECORD,
    WEIGHTS,
    Kept,
    heads_left,
    read_record,
    record_when_saved,
    write_record,
)
from headprune_lib.slicing import keep_heads


def save_pruned(model: PreTrainedModel, folder: str | os.PathLike) -> Path:
    """Write ``config.json``, ``headprune.json`` (heads left) and ``model.safetensors``.

    The folder is there whole or not at all: an error (a full disk) leaves nothing behind.

    Raises:
        FileExistsError: the folder holds something already; nothing is overwritten.
        ValueError: a model that :func:`load_pruned` could not make again from its class and its
            configuration: no transformers model, in an adapter, or changed beside its heads.
    """
    folder = Path(folder)
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    _check_loadable(model)
    with new_folder(folder) as staged:
        model.config.save_pretrained(staged)
        if getattr(model, "generation_config", None) is not None:
            model.generation_config.save_pretrained(staged)
        save_model(model, str(staged / WEIGHTS), metadata={"format": "pt"})  # tied weights once
        write_record(model, staged)
    return folder


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to write into, which takes its name when all is written, and is gone after an error.

    Raises:
        FileExistsError: the name is that of a file, or of a folder that holds something.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is not empty; choose a new folder for the pruned model")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # beside it, for a name is given in one step only within a file system
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as around:
        staged = Path(around) / "staged"
        staged.mkdir()  # with the rights that a folder usually has
        yield staged
        if folder.exists():
            folder.rmdir()
        staged.rename(folder)


def load_pruned(
    folder: str | os.PathLike,
    *,
    model_class: type[PreTrainedModel] | None = None,
    device: str | torch.device = "cpu",
) -> PreTrainedModel:
    """The model that :func:`save_pruned` wrote, in evaluation mode.

    Also what ``save_pretrained`` or ``Trainer`` wrote of a model after its heads were removed.

    Args:
        model_class: the model's class, where it is not one of transformers' own; its configuration
            alone must make the model.

    Raises:
        FileNotFoundError: no complete pruned model in the folder.
        ValueError: the weights or the record of the heads are damaged, do not belong together, or
            are of a class that this version of transformers does not have and that is not given.
    """
    folder = Path(folder)
    for name in ("config.json", WEIGHTS, RECORD):
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"{folder / name} is missing: not a folder that save_pruned wrote to the end"
            )
    record = read_record(folder)
    try:
        weights = load_file(folder / WEIGHTS)
    except SafetensorError as error:
        raise ValueError(f"{folder} is damaged ({error}); save the pruned model again") from error
    named = model_class or class_named(record.model_class)
    if not (isinstance(named, type) and issubclass(named, PreTrainedModel)):
        raise ValueError(
            f"{folder / RECORD} names the class {record.model_class!r}, which transformers "
            f"{transformers.__version__} does not have: if it is one of your own, "
            "load_pruned(folder, model_class=…) takes it"
            if model_class is None
            else f"model_class is {model_class!r}; give a class of transformers' models, or one "
            "that inherits from it"
        )
    made: Any = named
    try:
        config = made.config_class.from_pretrained(folder)
        with torch.device("meta"):  # a wrong configuration may ask for more than there is memory
            sized = made(copy.deepcopy(config))
            if _known_by_name(sized, record.kept):
                _check_fit(_with_heads(sized, record.kept), weights)
        model = _with_heads(made(config), record.kept)
        floating = (weight.dtype for weight in weights.values() if weight.is_floating_point())
        model.to(next(floating, torch.float32))
        load_model(model, folder / WEIGHTS)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # whatever a class makes of a configuration that cannot be
        raise ValueError(
            f"the weights in {folder} do not fit its headprune.json or config.json: {error}"
        ) from error
    if (folder / transformers.utils.GENERATION_CONFIG_NAME).is_file():
        model.generation_config = transformers.GenerationConfig.from_pretrained(folder)
    return model.to(device).eval()


def _known_by_name(model: nn.Module, kept: Kept) -> bool:
    """Whether heads are found without running the model, which has no weights on the meta device."""
    modules = dict(model.named_modules())
    return all(path in modules and _is_known(modules[path]) for path in kept)


def _is_known(module: nn.Module) -> bool:
    how = getattr(module, "headprune_found", {}).get("how")  # of one that has lost heads
    return how == "table" or type(module).__name__ in REGISTERED or is_released(module)


def _with_heads(model: Any, kept: Kept) -> Any:
    """An unpruned model with these heads left."""
    keep_recorded(model, find_heads(model), kept)
    record_when_saved(model)
    return model


def keep_recorded(model: nn.Module, blocks: Sequence[AttentionBlock], kept: Kept) -> None:
    """Slice all blocks of an unpruned model down to the heads that are recorded of each.

    Raises:
        ValueError: other blocks or heads are recorded than the model has.
    """
    if {block.path for block in blocks} != kept.keys():
        raise ValueError(f"heads of {sorted(kept)} are recorded, the model has others")
    for block in blocks:
        heads = kept[block.path]
        if heads != sorted(set(heads) & set(range(block.n_heads))):
            raise ValueError(f"{heads} are no heads of {block.path}, which has {block.n_heads}")
        keep_heads(model, block, heads)


def _check_fit(model: nn.Module, weights: dict[str, torch.Tensor]) -> None:
    wanted = {name: tuple(values.shape) for name, values in model.state_dict().items()}
    for name, values in weights.items():
        if wanted.get(name) != tuple(values.shape):
            raise ValueError(f"{name} is {tuple(values.shape)}, expected {wanted.get(name)}")


def _check_loadable(model: nn.Module) -> None:
    """A model must be one that its class, its configuration and the heads left make again."""
    own = type(model)
    if not isinstance(model, PreTrainedModel):
        adapter = "; merge the adapter first, model = model.merge_and_unload()"
        raise ValueError(
            f"{own.__module__}.{own.__qualname__} is no model of transformers, so that load_pruned "
            f"could not make the model again{adapter if hasattr(model, 'peft_config') else ''}. "
            "Save the transformers model in it, or its state_dict() with "
            "headprune_lib.find_heads(model), and build it by your own code"
        )
    kept = heads_left(model)
    with torch.device("meta" if _known_by_name(model, kept) else "cpu"):
        try:
            again = _with_heads(own(copy.deepcopy(model.config)), kept)
        except TypeError as error:
            raise ValueError(
                f"{own.__module__}.{own.__qualname__} is not made of its configuration alone "
                f"({error}), so that load_pruned could not make it again: put what it needs into "
                "model.config"
            ) from error
    here, there = (
        {name: tuple(values.shape) for name, values in one.state_dict().items()}
        for one in (model, again)
    )
    if here != there:
        differing = sorted(
            name for name in here.keys() | there.keys() if here.get(name) != there.get(name)
        )
        raise ValueError(
            f"{own.__name__} was changed beside its heads, so that its config.json does not "
            f"describe it and load_pruned could not make it again: {differing[:3]}"
            f"{' …' if len(differing) > 3 else ''}. Merge adapters (merge_and_unload), and put "
            "other changes into model.config"
        )
