"""Orders and schedules of pruning, and heads really removed from a model's weights."""

from __future__ import annotations

import inspect
import json
import math
import os
import types
from collections.abc import Sequence
from pathlib import Path

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file, load_model, save_model
from torch import Tensor, nn

from headprune_lib.heads import (
    ARCHITECTURES,
    AttentionBlock,
    HeadTensors,
    check_mask,
    find_heads,
    full_mask,
)

Head = tuple[str, int, int]
_RECORD, _WEIGHTS = "headprune.json", "model.safetensors"


def prune_order(scores: HeadTensors) -> list[Head]:
    """Heads ``(kind, layer, head)`` from the least important to the most (paper, section 4).

    Ties keep the order of kind, layer, head. NaN marks a head that is no longer there: left out.
    """
    heads = [
        (value, (kind, layer, head))
        for kind, values in scores.items()
        for layer, row in enumerate(values.tolist())
        for head, value in enumerate(row)
        if not math.isnan(value)
    ]
    return [head for _, head in sorted(heads, key=lambda pair: pair[0])]


def prune_schedule(n_heads: int, steps: int = 10) -> list[int]:
    """How many heads are gone after each step: ``ceil(n i / steps)`` for i = 0 to ``steps``.

    >>> prune_schedule(72)
    [0, 8, 15, 22, 29, 36, 44, 51, 58, 65, 72]
    """
    return [-(-n_heads * i // steps) for i in range(steps + 1)]


def order_mask(model: nn.Module, order: Sequence[Head], n_cut: int) -> HeadTensors:
    """The mask that cuts the first ``n_cut`` heads of ``order``."""
    mask = full_mask(model)
    for kind, layer, head in order[:n_cut]:
        mask[kind][layer, head] = 0
    return mask


def prune_heads(model: nn.Module, mask: HeadTensors) -> nn.Module:
    """Remove the weights of the heads that ``mask`` cuts, in place (paper, section 4.3).

    Rows of the query, key and value projections and columns of the output projection go; outputs
    are those of :func:`headprune_lib.masked_heads` up to rounding. Layers may keep different
    numbers of heads; where none is left, attention contributes the output projection's bias.

    Args:
        model: a transformers model that :func:`headprune_lib.find_heads` knows.
        mask: kind -> ``(layer, head)``, 0 removes; heads are numbered as in the unpruned model.

    Returns:
        ``model``, for chaining.

    Raises:
        TypeError, ValueError: a mask that does not fit, has entries other than 0 and 1, or cuts a
            head that was removed before. The model is left as it was.
    """
    mask = check_mask(model, mask)
    for kind, values in mask.items():
        if not torch.isin(values, torch.tensor([0.0, 1.0])).all():
            raise ValueError(f"mask[{kind!r}] must hold 0 and 1 only: a weight is removed or kept")
    blocks = find_heads(model)
    gone = [
        (block.kind, block.layer, head)
        for block in blocks
        for head in range(block.n_heads)
        if mask[block.kind][block.layer, head] == 0 and head not in block.kept
    ]
    if gone:
        raise ValueError(
            f"already removed from this model: {gone[:5]}{' ...' if len(gone) > 5 else ''}; "
            "give 1 for heads that are no longer there, or prune the unpruned model"
        )
    for block in blocks:
        row = mask[block.kind][block.layer]
        keep = [head for head in block.kept if row[head] == 1]
        if len(keep) < len(block.kept):
            _remove(model, block, keep)
    return model


def save_pruned(model: nn.Module, folder: str | os.PathLike) -> Path:
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
    save_model(model, str(folder / _WEIGHTS), metadata={"format": "pt"})  # tied weights once
    # last: a folder without it was not written to the end, and load_pruned says so
    (folder / _RECORD).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    return folder


def load_pruned(folder: str | os.PathLike, *, device: str | torch.device = "cpu") -> nn.Module:
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
    if model_class is None:
        raise ValueError(
            f"{folder / _RECORD} names the class {record['model_class']!r}, which transformers "
            f"{transformers.__version__} does not have"
        )
    model = model_class(model_class.config_class.from_pretrained(folder))
    for block in find_heads(model):
        _remove(model, block, record["kept"][block.path])
    model.to(next(weight.dtype for weight in weights.values() if weight.is_floating_point()))
    try:
        load_model(model, folder / _WEIGHTS)
    except RuntimeError as error:
        raise ValueError(f"the weights in {folder} do not fit its headprune.json: {error}") from None
    return model.to(device).eval()


def _remove(model: nn.Module, block: AttentionBlock, keep: Sequence[int]) -> None:
    """Slice one block's weights down to the heads ``keep`` (original indices)."""
    core = block.part(model, "core")
    positions = torch.tensor([block.kept.index(head) for head in keep], dtype=torch.long)
    # (kept, width) -> columns of the concatenated heads
    columns = (positions[:, None] * block.width + torch.arange(block.width)).flatten()
    for name in ("query", "key", "value"):
        _keep_features(block.part(model, name), columns, dim=0)
    _keep_features(block.part(model, "output"), columns, dim=1)
    setattr(core, block.architecture.n_heads, len(keep))
    if block.architecture.size:
        setattr(core, block.architecture.size, len(columns))
    core.headprune_n_heads, core.headprune_kept = block.n_heads, tuple(keep)
    if block.architecture.per_head_argument and not hasattr(core, "headprune_hook"):
        core.headprune_hook = True
        core.register_forward_pre_hook(
            _slice_argument(block.architecture.per_head_argument), with_kwargs=True
        )
    if not keep:
        core.forward = types.MethodType(_headless_forward, core)  # bound: copies with the model


def _keep_features(linear: nn.Linear, index: Tensor, dim: int) -> None:
    index = index.to(linear.weight.device)
    linear.weight = nn.Parameter(
        linear.weight.detach().index_select(dim, index), linear.weight.requires_grad
    )
    if dim == 0:
        linear.out_features = len(index)
        if linear.bias is not None:
            linear.bias = nn.Parameter(
                linear.bias.detach().index_select(0, index), linear.bias.requires_grad
            )
    else:
        linear.in_features = len(index)


def _slice_argument(name: str):
    """A hook that gives a layer only its own heads' part of an argument ``(batch, head, ...)``."""

    def hook(core: nn.Module, args: tuple, kwargs: dict):
        bound = inspect.signature(type(core).forward).bind(core, *args, **kwargs)
        if bound.arguments.get(name) is not None:
            bound.arguments[name] = bound.arguments[name][:, list(core.headprune_kept)]
        return bound.args[1:], bound.kwargs

    return hook


def _headless_forward(core: nn.Module, hidden_states: Tensor, *_args, past_key_values=None,
                      key_value_states=None, **_kwargs):
    """A layer without heads: reshaping zero numbers into heads would be ambiguous."""
    if past_key_values is not None and key_value_states is None:
        # generation reads how many tokens it has seen off the first layer's cache
        cache = getattr(past_key_values, "self_attention_cache", past_key_values)
        seen = hidden_states.new_zeros(len(hidden_states), 1, hidden_states.shape[1], 1)
        cache.update(seen, seen, core.layer_idx)
    nothing = hidden_states.new_zeros(*hidden_states.shape[:-1], 0)
    architecture = ARCHITECTURES.get(type(core).__name__)
    # a core with an entry of its own applies the output projection too
    return (nothing if architecture is None else core.get_submodule(architecture.output)(nothing)), None
