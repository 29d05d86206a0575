"""What was removed from a model, told by its weights.

Each pruned attention module has a buffer that says which of its heads are left. A buffer is saved
with the weights, under the module's path there: whatever writes them (a model around the pruned one,
a model in it, several files, a variant) writes what is gone as well.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any

import torch
from torch import Tensor, nn

from headprune_lib.architectures import ARCHITECTURES, Architecture, is_known
from headprune_lib.blocks import AttentionBlock, block_of

RECORD = "headprune_lib_load_pruned"
"""The buffer's name, which transformers prints when it cannot load a pruned model: it says what can."""

Record = dict[str, Any]
"""``kept``, the original indices of the heads left, and what is known of the module's parts."""


def write_record(module: nn.Module, record: Record, device: torch.device) -> None:
    """Keep the record of a pruned module with its weights, as bytes: weights can hold no text."""
    text = json.dumps(record, sort_keys=True).encode()
    module.register_buffer(RECORD, torch.tensor(list(text), dtype=torch.uint8, device=device))


def read_record(values: Tensor) -> Record:
    """The record in a buffer of :func:`write_record`.

    Raises:
        ValueError: bytes that are no such record.
    """
    try:
        record = json.loads(bytes(values.tolist()))
        if not all(type(head) is int for head in record["kept"]):
            raise TypeError("kept is to be a list of numbers")
        return record
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"not what the library writes ({type(error).__name__}: {error})"
        ) from error


def record_of(block: AttentionBlock, keep: Sequence[int]) -> Record:
    """What must be known to slice an unpruned module down to the heads ``keep``."""
    names = block.architecture
    return {
        "kept": list(keep),
        "architecture": {
            field.name: value
            for field in fields(Architecture)
            if (value := getattr(names, field.name)) != field.default
        },
        "found": {
            field.name: getattr(block, field.name)
            for field in fields(AttentionBlock)
            if field.name == "kind" or field.default is not MISSING  # what a module does not tell
        },
    }


def records_of(model: nn.Module) -> dict[str, Record]:
    """Path of each pruned attention module -> its record."""
    return {
        path: read_record(module._buffers[RECORD])
        for path, module in model.named_modules()
        if RECORD in module._buffers
    }


def recorded_block(model: nn.Module, path: str, record: Record) -> AttentionBlock:
    """The block of an unpruned module that has a record; nothing is run or proved.

    Raises:
        ValueError: the model has no such module, or not those heads.
    """
    modules = dict(model.named_modules())
    if path not in modules:
        raise ValueError(
            f"heads of {path} were removed, and {type(model).__name__} has no such module"
        )
    said: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in record["architecture"].items()
    }
    try:
        module = modules[path]
        names = (
            ARCHITECTURES[type(module).__name__] if is_known(module) else Architecture(**said)
        )
        block = block_of(model, path, names, layer=0, layer_path="", **record["found"])
    except TypeError as error:
        raise ValueError(
            f"{path} has a record that a newer version of the library wrote ({error})"
        ) from error
    kept = record["kept"]
    if kept != sorted(set(kept) & set(range(block.n_heads))):
        raise ValueError(f"{kept} are no heads of {path}, which has {block.n_heads}")
    return block
