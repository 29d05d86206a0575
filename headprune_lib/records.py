"""What was removed from a model, told by its weights and by its configurations.

The output projection of each pruned attention module has a buffer that says which heads are left. A
buffer is saved with the weights, under the module's path there: whatever writes them (a model around
the pruned one, a model in it, several files, a variant) writes what is gone as well. It lies with a
projection, and not with the module around, so that maps of devices that name projections place it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

import torch
from torch import Tensor, nn

from headprune_lib.specs import ARCHITECTURES, Architecture, AttentionBlock, block_of, is_known

RECORD = "headprune_lib_load_pruned"
"""The buffer's name, which transformers prints when it cannot load a pruned model: it says what can."""

Record = dict[str, Any]
"""``kept``, the original indices of the heads left, and what is known of the module's parts."""


def write_record(model: nn.Module, path: str, record: Record) -> None:
    """Keep the record of a pruned module with its weights, as bytes: weights can hold no text."""
    holder: Any = model.get_submodule(path).get_submodule(record["architecture"]["output"])
    text = json.dumps(record, sort_keys=True).encode()
    values = torch.tensor(list(text), dtype=torch.uint8, device=holder.weight.device)
    holder.register_buffer(RECORD, values)


def read_record(values: Tensor) -> Record:
    """The record in a buffer of :func:`write_record`.

    Raises:
        ValueError: bytes that are no such record.
    """
    try:
        record = json.loads(bytes(values.tolist()))
        if not (all(type(head) is int for head in record["kept"]) and record["found"]):
            raise TypeError("kept is to be a list of numbers")
        if not isinstance(record["architecture"]["output"], str):
            raise TypeError("output is to be a name")
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
    return dict(
        recorded_at(path, read_record(module._buffers[RECORD]))
        for path, module in model.named_modules()
        if RECORD in module._buffers
    )


def recorded_at(holder: str, record: Record) -> tuple[str, Record]:
    """The path of the attention module whose output projection, of this path, has the record."""
    return holder.removesuffix(record["architecture"]["output"]).removesuffix("."), record


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
        names = ARCHITECTURES[type(module).__name__] if is_known(module) else Architecture(**said)
        block = block_of(model, path, names, layer=0, layer_path="", **record["found"])
    except TypeError as error:
        raise ValueError(
            f"{path} has a record that a newer version of the library wrote ({error})"
        ) from error
    kept = record["kept"]
    if kept != sorted(set(kept) & set(range(block.n_heads))):
        raise ValueError(f"{kept} are no heads of {path}, which has {block.n_heads}")
    return block


def renumbered(
    model: Any,
    blocks: Sequence[AttentionBlock],
    before: Sequence[Sequence[int]],
    after: Sequence[Sequence[int]],
) -> list[tuple[Any, str, list]]:
    """What the model's configurations must say once heads of the attention to the encoder moved.

    They count the heads that a layer has, so that a head that goes moves those after it. Of all
    configurations of transformers two name heads: Whisper takes the times of words from the
    attention of ``alignment_heads``, and SpeechT5 a loss from that of the first heads of each layer.

    Args:
        before: the heads of each block (original indices), in their order, as the configurations
            count them.
        after: the heads of each block as the configurations are to count them.

    Returns:
        ``(configuration, attribute, value)`` to be set.

    Raises:
        ValueError: a head that is named goes.
    """
    changes = []
    layers = {
        block.layer: (old, list(new))
        for block, old, new in zip(blocks, before, after, strict=True)
        if block.kind == "enc-dec"
    }
    for owner, name, pairs in _named_heads(model, {k: len(old) for k, (old, _) in layers.items()}):
        heads = [(layer, layers[layer][0][place]) for layer, place in pairs]
        if gone := [(layer, head) for layer, head in heads if head not in layers[layer][1]]:
            raise ValueError(
                f"{name} of the {type(owner).__name__} names heads of attention to the encoder "
                f"that would be removed, (layer, head): {gone[:5]}{' …' if len(gone) > 5 else ''}. "
                f"Keep them, or set {name} to other heads first"
            )
        if name == "alignment_heads":
            places = [[layer, layers[layer][1].index(head)] for layer, head in heads]
            changes.append((owner, name, places))
    return changes


def _named_heads(
    model: Any, n_heads: Mapping[int, int]
) -> Iterator[tuple[Any, str, list[tuple[int, int]]]]:
    """Configuration, attribute, and ``(layer, place)`` of each head that it names."""
    generation = getattr(model, "generation_config", None)
    config: Any = getattr(model, "config", None)
    pairs = [(layer, place) for layer, place in getattr(generation, "alignment_heads", None) or ()]
    if pairs and all(0 <= place < n_heads.get(layer, 0) for layer, place in pairs):
        yield generation, "alignment_heads", pairs  # else they are another model's
    # SpeechT5 for text is trained without that loss
    makes_speech = hasattr(model, "speech_decoder_postnet")
    if makes_speech and getattr(config, "use_guided_attention_loss", False):
        first = config.guided_attention_loss_num_heads
        yield (
            config,
            "guided_attention_loss_num_heads",
            [(layer, place) for layer, n in n_heads.items() for place in range(min(first, n))],
        )
