"""Which heads a model in a folder has left: ``headprune.json``, with checksums, beside its weights."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from headprune_lib.heads import find_heads
from headprune_lib.model_classes import name_of

RECORD = "headprune.json"
WEIGHTS = "model.safetensors"

Kept = dict[str, list[int]]
"""Path of each attention module -> the original indices of its heads that are left."""


@dataclass(frozen=True)
class Record:
    """What ``headprune.json`` says.

    Attributes:
        model_class: name of the class of transformers; of another with its module.
        kept: the heads left in each attention module.
    """

    model_class: str
    kept: Kept


def heads_left(model: nn.Module) -> Kept:
    """The heads that each attention module has left."""
    return {block.path: list(block.kept) for block in find_heads(model)}


def write_record(model: nn.Module, folder: Path) -> None:
    """Write ``headprune.json`` beside the weights, whose checksum it holds."""
    said = {
        "model_class": name_of(model),
        "kept": heads_left(model),
        "weights_sha256": _sha256(folder / WEIGHTS),
    }
    text = json.dumps(said | {"record_sha256": _digest(said)}, indent=1, sort_keys=True)
    (folder / RECORD).write_text(text + "\n", encoding="utf-8")


def read_record(folder: Path) -> Record:
    """What ``headprune.json`` says, after a look at the checksums; older files have none.

    Raises:
        ValueError: the file is damaged or was edited, or the weights are not those it was written
            with.
    """
    path = folder / RECORD
    try:
        said: Any = json.loads(path.read_text(encoding="utf-8"))
        record = Record(said["model_class"], said["kept"])
        if not (isinstance(record.model_class, str) and all(map(_indices, record.kept.values()))):
            raise TypeError("model_class is to be a name, and kept lists of numbers")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is damaged ({type(error).__name__}: {error}); save the pruned model again"
        ) from error
    written = said.pop("record_sha256", None)
    if written is not None and written != _digest(said):
        raise ValueError(
            f"{path} was changed after it was written: which heads are left is not certain; save "
            "the pruned model again"
        )
    if "weights_sha256" in said and said["weights_sha256"] != _sha256(folder / WEIGHTS):
        raise ValueError(
            f"{folder / WEIGHTS} is damaged, or not the file that {path} was written with: its "
            "checksum is another one; save the pruned model again"
        )
    return record


def record_when_saved(model: Any) -> None:
    """From now on ``model.save_pretrained``, which ``Trainer`` calls, writes the record as well.

    Without it nothing could tell from the folder which heads are left.
    """
    if hasattr(type(model), "save_pretrained"):
        model.save_pretrained = partial(_save_with_record, model)


def _save_with_record(model: Any, folder: str | os.PathLike, *args: Any, **kwargs: Any) -> None:
    type(model).save_pretrained(model, folder, *args, **kwargs)
    if (Path(folder) / WEIGHTS).is_file():  # in one file, and written by this process
        write_record(model, Path(folder))
    elif (Path(folder) / f"{WEIGHTS}.index.json").is_file():
        raise ValueError(
            f"{folder} holds the weights in several files, and load_pruned reads one: give "
            "save_pretrained a larger max_shard_size, or use headprune_lib.save_pruned"
        )


def _indices(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int for value in values)


def _digest(said: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
