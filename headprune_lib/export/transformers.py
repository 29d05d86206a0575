"""Export of a pruned model to a folder that plain transformers opens."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel

from headprune_lib.discovery import find_heads
from headprune_lib.export.comparing import check_same, unwrap_compiled
from headprune_lib.export.configurations import Candidate, by_kind, candidates, numbers_taken
from headprune_lib.messages import one_line, quiet
from headprune_lib.saving import new_folder, unprune_heads
from headprune_lib.selection import shares_biases
from headprune_lib.slicing import RECORD
from headprune_lib.specs import AttentionLayer

_OTHERWISE = (
    "the folder of save_pruned, which load_pruned opens, or --format onnx, which writes any "
    "numbers of heads, or --full-size (full_size=True), which writes the unpruned size with zeros "
    "for what was removed"
)


@dataclass(frozen=True)
class Exported:
    """An exported folder.

    Attributes:
        folder: its path.
        model_class: name of the class of transformers that opens it.
        route: ``"uniform"``, one number of heads for all layers; ``"uniform, head_dim"``, with the
            width of a head as well; ``"per layer"``; ``"as …"``, under another class; or
            ``"full size"``.
        difference: largest difference between the outputs of the model and of the one loaded from
            the folder, on random inputs.
    """

    folder: Path
    model_class: str
    route: str
    difference: float


def export_transformers(
    model: PreTrainedModel, folder: str | os.PathLike, *, full_size: bool = False
) -> Exported:
    """Write a folder that ``AutoModel….from_pretrained`` opens without this library.

    A configuration that describes the remaining heads is searched for. The folder is loaded again
    and compared with the model on random inputs before it gets its name. Every layer may have the
    same number of heads (:func:`headprune_lib.uniform_mask` chooses so) if the class takes a head
    width independent of the hidden size, or if another class does and computes the same (Llama's
    weights under Mistral's class). Different numbers are possible if the class reads them. The
    folder does not say which heads were removed: it numbers heads anew.

    Args:
        full_size: write the size before pruning, with zeros in place of removed weights
            (:func:`headprune_lib.unprune_heads`). Every class supports that, but it saves no time.

    Raises:
        FileExistsError: the folder is not empty.
        ValueError: the model's class is not transformers' own, no configuration describes the
            model, or its weights are not in memory. The message names an alternative.
    """
    model = unwrap_compiled(model)
    if getattr(transformers, type(model).__name__, None) is not type(model):
        raise ValueError(
            f"{type(model).__qualname__} is not a class of transformers, which could not open it. "
            "Merge adapters first (model.merge_and_unload()), or use save_pruned or --format onnx"
        )
    folder, reasons = Path(folder), []
    if full_size:
        return _export_full_size(model, folder)
    blocks = find_heads(model)
    weights = _plain_weights(model, blocks)
    with new_folder(folder) as staged, quiet():
        for candidate in candidates(model, blocks):
            try:
                plain = _with_weights(candidate, weights)
            except Exception as error:  # a class may raise anything for a configuration
                reasons.append(one_line(error))
                continue
            plain.save_pretrained(staged)
            if getattr(model, "generation_config", None) is not None:
                model.generation_config.save_pretrained(staged)
            difference = check_same(model, _loaded(candidate.model_class, model, staged))
            return Exported(folder, candidate.model_class.__name__, candidate.route, difference)
        raise ValueError(_refusal(model, blocks, reasons))


def _export_full_size(model: PreTrainedModel, folder: Path) -> Exported:
    with new_folder(folder) as staged, quiet():
        unprune_heads(model).save_pretrained(staged)
        difference = check_same(model, _loaded(type(model), model, staged))
    return Exported(folder, type(model).__name__, "full size", difference)


def _with_weights(one: Candidate, weights: dict[str, Tensor]) -> PreTrainedModel:
    """A model of the candidate's class with the model's own weights, not copies."""
    with torch.device("meta"):
        plain = one.model_class(one.config())
    expected = plain.state_dict()
    for name in sorted(expected.keys() ^ weights.keys()):
        raise ValueError(f"{name} is in only one of the two models")
    for name, values in weights.items():
        if expected[name].shape != values.shape:
            raise ValueError(
                f"{one.model_class.__name__} makes {name} of {tuple(expected[name].shape)}, but "
                f"{tuple(values.shape)} is left of it"
            )
    plain.load_state_dict(weights, assign=True)
    plain.tie_weights()
    return plain.eval()


def _loaded(model_class: Any, model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    kernel = getattr(model.config, "_attn_implementation", None)
    loaded = model_class.from_pretrained(
        folder, dtype=model.dtype, attn_implementation=kernel, local_files_only=True
    )
    return loaded.to(model.device).eval()


def _plain_weights(model: PreTrainedModel, blocks: Sequence[AttentionLayer]) -> dict[str, Tensor]:
    """The weights in the class's own shapes: tables that pruned layers keep whole are cut."""
    weights = {name: v for name, v in model.state_dict().items() if not name.endswith(RECORD)}
    for layers in by_kind(blocks).values():
        kept = {block.kept_heads for block in layers}
        if len(layers) > 1 and not shares_biases(model, layers):
            continue
        if len(kept) > 1:
            raise ValueError(
                f"the layers of {layers[0].kind!r} share one table of position biases and must keep "
                "the same heads. Prune with --uniform (headprune_lib.uniform_mask), or use "
                f"{_OTHERWISE}"
            )
        for block in layers:
            name = f"{block.path}.relative_attention_bias.weight"
            if name in weights:
                weights[name] = weights[name][:, list(next(iter(kept)))]
    return weights


def _refusal(
    model: PreTrainedModel, blocks: Sequence[AttentionLayer], reasons: Sequence[str]
) -> str:
    name, block = type(model).__name__, blocks[0]
    for kind, layers in by_kind(blocks).items():
        counts = sorted({len(layer.kept_heads) for layer in layers})
        if counts == [0]:
            return f"no layer of {kind!r} has a head, which no configuration says. Use {_OTHERWISE}"
        if len(counts) == 1:
            continue
        left = f"layers of {kind!r} have {counts[0]} to {counts[-1]} heads left, and {name} takes"
        if next(numbers_taken(model, blocks), None) is None:
            return f"{left} no fewer of this width, so --uniform does not help. Use {_OTHERWISE}"
        return (
            f"{left} one number for all, at least one. Prune with --uniform "
            f"(headprune_lib.uniform_mask), which keeps as many in each layer, or use {_OTHERWISE}"
        )
    possible = [number for number in numbers_taken(model, blocks) if number < len(block.kept_heads)]
    why = "; ".join(dict.fromkeys(reasons)).rstrip(". ")
    if possible:
        hint = (
            f"It takes {' or '.join(map(str, possible))} heads in all layers. Prune to that, or use"
        )
    else:
        hint = "Nor does it take fewer heads of this width in all layers. Use"
    return (
        f"no configuration of {name} has {len(block.kept_heads)} heads of width {block.head_dim} "
        f"in every layer: {why}. {hint} {_OTHERWISE}"
    )
