"""Slicing of one attention module's weights down to some of its heads, and how it runs afterwards.

Where heads are left, the module's own code runs, with fewer rows in its weights. Functions below do
what it cannot (take a position bias that was made for all heads, reshape zero numbers into zero
heads). Copied and unpickled models keep these functions.

The output projection of each pruned module has a buffer that says which heads are left, so that
it is written with the weights in any case (an enclosing model, several files, a variant).
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, EncoderDecoderCache, StaticLayer
from transformers.pytorch_utils import Conv1D

from headprune_lib.specs import (
    ATTENTION_SPECS,
    PRUNED,
    AttentionLayer,
    AttentionSpec,
    is_known,
    layer_at,
    renamed,
    rows_of,
)


def keep_heads(model: nn.Module, block: AttentionLayer, keep: Sequence[int]) -> None:
    """Slice one block's weights down to the heads ``keep`` (original indices).

    Raises:
        ValueError: groups that lose different numbers of heads; the weights are not checked.
    """
    names, n_heads = block.spec, len(block.kept_heads)
    left = replace(block, kept_heads=tuple(keep), queries_per_kv=block.group_left(keep))
    core: Any = block.part(model, "core")  # its attributes depend on its class
    module: Any = model.get_submodule(block.path)
    positions = [block.kept_heads.index(head) for head in keep]
    rows: dict[Any, list[int]] = {}
    for part, indices in head_rows(model, block, keep).items():
        rows.setdefault(getattr(names, part) or names.fused, []).extend(indices)
    for path in names.extra_projections:
        if (more := _found(module, path)) is not None:
            rows[path] = _features(positions, rows_of(more) // max(1, n_heads))
    for path, indices in rows.items():
        _keep_features(module.get_submodule(path), sorted(set(indices)), "out")
    columns = _features(positions, block.head_dim)
    _keep_features(block.part(model, "output"), columns, "in")
    if not hasattr(core, "headprune_axes"):
        # found only once: a table of 4 rows and 8 heads has two axes of 4 when 4 heads are left
        tables = {path: _found(module, path) for path in names.per_head}
        core.headprune_axes = {
            path: list(table.shape).index(n_heads)
            for path, table in tables.items()
            if isinstance(table, Tensor) and n_heads in table.shape
        }
    for path, axis in core.headprune_axes.items():
        _keep_entries(module, path, axis, positions)
    _say_sizes(core, left)
    if _LEFT not in vars(core):  # also only once
        core.register_forward_pre_hook(_fit_cache, with_kwargs=True)
        if names.bias_argument:  # from now on it takes and returns the bias of all heads
            core.register_forward_pre_hook(_own_bias, with_kwargs=True)
        if names.bias_output is not None:
            core.register_forward_hook(_whole_bias)
            if hasattr(core, "compute_bias"):
                core.compute_bias = partial(_own_computed_bias, core)
    setattr(module, PRUNED, left)
    setattr(core, _LEFT, left)
    write_record(model, left)
    if not keep:
        _run_without_heads(model, left)


def head_rows(
    model: nn.Module, block: AttentionLayer, heads: Sequence[int]
) -> dict[str, list[int]]:
    """The rows that make the queries, keys and values of some heads (original indices).

    Returns:
        ``"query"``, ``"key"``, ``"value"`` -> rows of the projection that the field names, or of
        the fused one, except for parts that another layer makes.
    """
    names, module = block.spec, model.get_submodule(block.path)
    positions = [block.kept_heads.index(head) for head in heads]
    groups = list(dict.fromkeys(i // block.queries_per_kv for i in positions))
    n_heads, n_groups = len(block.kept_heads), len(block.kept_heads) // block.queries_per_kv
    rows: dict[str, list[int]] = {}
    if names.fused:
        # queries per group in the fused projection
        queries = 0 if names.query else block.queries_per_kv
        width = rows_of(module.get_submodule(names.fused)) // max(1, n_groups * (queries + 2))
        if names.qkv_interleaved:
            step = queries + 2
            first = [i + i // block.queries_per_kv * 2 for i in positions]
            keys = [j * step + queries for j in groups]
            values = [j * step + queries + 1 for j in groups]
        else:
            first = positions
            keys = [n_groups * queries + j for j in groups]
            values = [n_groups * (queries + 1) + j for j in groups]
        for part, places in (("query", first), ("key", keys), ("value", values)):
            rows[part] = _features(places, width)
    for part, places, n in (
        ("query", positions, n_heads),
        ("key", groups, n_groups),
        ("value", groups, n_groups),
    ):
        if (path := getattr(names, part)) is not None:
            rows[part] = _features(places, rows_of(module.get_submodule(path)) // max(1, n))
    return rows


def _say_sizes(core: Any, left: AttentionLayer) -> None:
    """Put the new sizes where the module's own code reads them."""
    names, n_heads, group = left.spec, len(left.kept_heads), left.queries_per_kv
    changed = {names.n_heads: n_heads, **dict.fromkeys(names.sizes, n_heads * left.head_dim)}
    if names.kv_heads:
        changed[names.kv_heads] = n_heads // group
    if names.queries_per_kv:
        changed[names.queries_per_kv] = group
    in_config = {k[7:]: v for k, v in changed.items() if k.startswith("config.")}
    for name, value in changed.items():
        if not name.startswith("config."):
            setattr(core, name, value)
    if names.copies_config:
        for name in ("num_attention_heads", "num_heads"):
            if names.n_heads.endswith(name) and hasattr(core.config, name):
                in_config[name] = n_heads
        if getattr(core.config, "num_key_value_heads", None):
            in_config["num_key_value_heads"] = n_heads // group
        whole = vars(core.config).get("_of_model", core.config)
        core.config = _ConfigOfModule(whole, in_config)


class _ConfigOfModule:
    """A configuration with its own sizes; everything else, even if set later, is the model's.

    The model's configuration still says what was built.
    """

    def __init__(self, of_model: Any, sizes: dict[str, int]) -> None:
        vars(self).update(sizes, _of_model=of_model)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_of_model" not in vars(self):  # while it is unpickled
            raise AttributeError(name)
        return getattr(self._of_model, name)


def _features(places: Sequence[int], width: int) -> list[int]:
    """Rows or columns of the heads at these places, side by side."""
    return [j * width + i for j in places for i in range(width)]


def _found(module: nn.Module, path: str) -> Any:
    """The submodule, parameter or buffer at this path; None if there is none."""
    with suppress(AttributeError):
        return attrgetter(path)(module)
    return None


def _keep_entries(module: nn.Module, path: str, axis: int, positions: list[int]) -> None:
    """Keep some heads' entries of a parameter or buffer along its axis of heads."""
    holder_path, _, name = path.rpartition(".")
    holder = module.get_submodule(holder_path)
    tensor = getattr(holder, name)
    kept = _kept(tensor, axis, positions)
    if name in holder._parameters:
        setattr(holder, name, kept)
    else:
        holder._buffers[name] = kept.detach()
    if isinstance(holder, nn.Embedding):
        holder.embedding_dim = holder.weight.shape[1]


def _keep_features(linear: Any, index: list[int], side: str) -> None:
    """Keep some outputs (``"out"``) or inputs (``"in"``) of a projection."""
    transposed = isinstance(linear, Conv1D)  # (in, out) where a linear layer has (out, in)
    linear.weight = _kept(linear.weight, int((side == "in") != transposed), index)
    if side == "out" and linear.bias is not None:
        linear.bias = _kept(linear.bias, 0, index)
    size = {"out": "nf", "in": "nx"}[side] if transposed else f"{side}_features"
    setattr(linear, size, len(index))


def _kept(tensor: Tensor, axis: int, entries: list[int]) -> nn.Parameter:
    index = torch.tensor(entries, dtype=torch.long, device=tensor.device)
    return nn.Parameter(tensor.detach().index_select(axis, index), tensor.requires_grad)


# The record of removed heads.

RECORD = "headprune_lib_load_pruned"
"""Name of the buffer. transformers prints it if it cannot load a pruned model: it says what can."""

Record = dict[str, Any]
"""``kept``, the original indices of the heads left, and what is known of the module's parts."""


def record_of(left: AttentionLayer) -> Record:
    """The record needed to slice an unpruned module down to the heads of this layer."""
    names = {
        field.name: value
        for field in fields(AttentionSpec)
        if (value := getattr(left.spec, field.name)) != field.default
    }
    return {"kept": list(left.kept_heads), "architecture": names, "found": left.limits}


def write_record(model: nn.Module, left: AttentionLayer) -> None:
    """Store the record of a pruned module with its weights, as bytes: weights cannot be text."""
    holder: Any = left.part(model, "output")
    text = list(json.dumps(record_of(left), sort_keys=True).encode())
    values = torch.tensor(text, dtype=torch.uint8, device=holder.weight.device)
    holder.register_buffer(RECORD, values)


def read_record(values: Tensor) -> Record:
    """The record in a buffer of :func:`write_record`, with its fields under their current names.

    Raises:
        ValueError: bytes that are not such a record.
    """
    try:
        record = json.loads(bytes(values.tolist()))
        return {**record, **{part: renamed(record[part]) for part in ("architecture", "found")}}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        name = type(error).__name__
        raise ValueError(f"its record is not what the library writes ({name}: {error})") from error


def records_of(model: nn.Module) -> dict[str, Record]:
    """Path of each pruned attention module -> its record."""
    buffers = {path: module._buffers.get(RECORD) for path, module in model.named_modules()}
    records = {path: read_record(values) for path, values in buffers.items() if values is not None}
    return {module_path(holder, record): record for holder, record in records.items()}


def module_path(holder: str, record: Record) -> str:
    """The path of an attention module, given that of its output projection, and its record."""
    return holder.removesuffix(record["architecture"]["output"]).removesuffix(".")


def keep_recorded(model: nn.Module, records: Mapping[str, Record]) -> None:
    """Slice an unpruned model down to the recorded heads, without running or verifying anything.

    Raises:
        ValueError: a module or heads that the model does not have.
    """
    modules = dict(model.named_modules())
    for path, record in records.items():
        if path not in modules:
            raise ValueError(f"{path} lost heads, but {type(model).__name__} has no such module")
        spec = ATTENTION_SPECS.get(type(modules[path]).__name__)
        if spec is None or not is_known(modules[path]):
            names: dict[str, Any] = {
                k: tuple(v) if isinstance(v, list) else v for k, v in record["architecture"].items()
            }
            spec = AttentionSpec(**names)
        block = layer_at(model, path, spec, **record["found"])
        if record["kept"] != sorted(set(record["kept"]) & set(range(block.n_heads))):
            raise ValueError(f"{record['kept']} are not heads of {path}, which has {block.n_heads}")
        keep_heads(model, block, record["kept"])


# How a pruned module runs.

Attention = Any  # a module whose attributes depend on its class
_NUMBERS = ("layer_idx", "layer_id", "layer_number")
OUTSIDE = ("key_value_states", "encoder_hidden_states", "cross_attention_states", "memory")
"""Names of arguments for the states that keys are made from, if they are not the module's own."""
_AS_CONFIGURED = (
    "for as many key and value heads as the configuration has, but some were removed. Generate "
    "without it, or prune all layers alike (uniform_mask) and load what export_transformers writes"
)
_LEFT = "headprune_left"  # attribute of a core: the layer that is left, for the functions below
_BIAS = "_headprune_bias"  # the bias of all heads, during a forward pass of the module


def _own_bias(core: Attention, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    left: AttentionLayer = getattr(core, _LEFT)
    bound = _bound(core, *args, **kwargs)
    bias = bound.arguments.get(left.spec.bias_argument or "")
    # (batch, head, query, key); the argument may also be a mask shared by all heads
    if bias is not None and bias.shape[1] == left.n_heads:
        if left.spec.bias_output is not None:
            setattr(core, _BIAS, bias)
        bound.arguments[left.spec.bias_argument or ""] = bias[:, list(left.kept_heads)]
    return bound.args[1:], bound.kwargs


def _own_computed_bias(core: Attention, *args: Any, **kwargs: Any) -> Tensor:
    bias = type(core).compute_bias(core, *args, **kwargs)
    setattr(core, _BIAS, bias)
    return bias[:, list(getattr(core, _LEFT).kept_heads)]


def _whole_bias(core: Attention, _inputs: tuple, outputs: tuple) -> tuple:
    left: AttentionLayer = getattr(core, _LEFT)
    index: Any = left.spec.bias_output
    kept_bias, bias = outputs[index], core.__dict__.pop(_BIAS, None)
    if bias is None:  # attention without positions makes a bias of zeros
        bias = kept_bias.new_zeros(len(kept_bias), left.n_heads, *kept_bias.shape[-2:])
    return (*outputs[:index], bias, *outputs[index + 1 :])


def _run_without_heads(model: nn.Module, left: AttentionLayer) -> None:
    """Make the module contribute nothing but the bias of its output projection from now on."""
    core: Attention = left.part(model, "core")
    output: Any = left.part(model, "output")
    core.forward = partial(_attend_with_no_head, core, _shares_cache_slot(model, left.path, core))
    for module in (*core.modules(), *output.modules()):
        if isinstance(module, nn.Linear) and not module.weight.numel():
            # quantize_dynamic then skips it: it could not choose a scale for zero numbers
            vars(module)["qconfig"] = None
    if isinstance(output, Conv1D):
        output.forward = partial(_bias_alone, output)


def _bias_alone(projection: Conv1D, nothing: Tensor) -> Tensor:
    """Replaces a transposed projection's ``forward``, which cannot reshape zero numbers."""
    return projection.bias.expand(*nothing.shape[:-1], -1)


def _attend_with_no_head(
    core: Attention, shared_slot: bool, *args: Any, **kwargs: Any
) -> Tensor | tuple[Tensor | None, ...]:
    """Replaces the ``forward`` of a module without heads.

    The cache still counts the tokens seen, which generation reads from the first layer. An
    encoder's tokens do not count there; where self- and cross-attention have separate caches, they
    are counted once in the latter's.
    """
    names: AttentionSpec = getattr(core, _LEFT).spec
    arguments = _arguments(core, *args, **kwargs)
    # the module's first argument, whatever its name: (batch, position, hidden)
    hidden_states: Tensor = list(arguments.values())[1]
    n, length = hidden_states.shape[:2]
    key_length: int = length
    past: int | Tensor = 0
    cache, number = _cache(arguments.values()), layer_number(core, arguments)
    if (outside := _outside(arguments, cache, shared_slot)) is not None:
        key_length = outside.shape[1]
        if isinstance(cache, EncoderDecoderCache) and not cache.is_updated.get(number):
            new = outside.new_zeros(n, 1, key_length, 1)
            cache.cross_attention_cache.update(new, new, number)
            cache.is_updated[number] = True
    elif cache is not None and names.makes_keys:
        cache = getattr(cache, "self_attention_cache", cache)
        past = cache.get_seq_length(number)
        if isinstance(past, Tensor):
            past = past.clone()  # a static cache updates this tensor in place
        new = hidden_states.new_zeros(n, 1, length, 1)
        # for a static cache, this is the length that it was made for
        key_length = cache.update(new, new, number)[0].shape[-2]
    context = hidden_states.new_zeros(*hidden_states.shape[:-1], 0)
    if not names.core:  # else the module around the core applies the output projection
        context = core.get_submodule(names.output)(context)
        if names.norm:
            context = core.get_submodule(names.norm)(hidden_states + context)
    outputs: list[Tensor | None] = [context, *[None] * (names.returns - 1)]
    if names.bias_output is not None:
        computes = getattr(core, "has_relative_attention_bias", False)
        if computes and arguments.get(names.bias_argument or "") is None:
            # for the layers above; a pruned module's hook replaces it with the bias of all heads
            device = hidden_states.device
            core.compute_bias(length, key_length, device=device, past_seen_tokens=past)
        outputs[names.bias_output] = hidden_states.new_zeros(1, 0, length, key_length)
    # Models drop a layer that returns no weights from their `attentions`, which would shift later
    # layers. Some modules always return what their kernel makes, others only on request.
    weights = hidden_states.new_zeros(n, 0, length, key_length)
    eager = getattr(getattr(core, "config", None), "_attn_implementation", "eager") == "eager"
    takes = inspect.signature(type(core).forward).parameters
    asked = "output_attentions" in takes and arguments.get("output_attentions")
    for index in names.weights:
        if index < names.returns and eager:
            outputs[index] = weights
        elif index == len(outputs) and asked:
            outputs.append(weights)
    return context if len(outputs) == 1 and not names.in_tuple else tuple(outputs)


def layer_number(core: Attention, given: Mapping[str, Any] = MappingProxyType({})) -> int | None:
    """The index of the module's keys and values in a cache; None if it caches none.

    If a module runs in several places (Zamba, HRM), the arguments ``given`` determine it.
    """
    number = next((getattr(core, name) for name in _NUMBERS if hasattr(core, name)), None)
    number = given.get("layer_idx", number)
    return None if number is None else number + given.get("cycle_offset", 0)


def _shares_cache_slot(model: nn.Module, path: str, core: Attention) -> bool:
    """Whether another attention module in the same layer has the same index in a cache.

    This is so for cross-attention: the self-attention next to it records the tokens. T5Gemma 2's
    single module attends to both sides and records them itself.
    """
    inside, number = set(core.modules()), layer_number(core)
    while path and number is not None:
        path = path.rpartition(".")[0]
        numbers = {
            layer_number(module)
            for module in model.get_submodule(path).modules()
            if module not in inside and core not in module.modules()
        }
        if numbers - {None}:
            return number in numbers
    return False


def _fit_cache(core: Attention, args: tuple, kwargs: dict[str, Any]) -> None:
    """Restart a static cache that was filled with zeros for all heads, for the heads left.

    A cache layer takes its size from the first keys, unless ``StaticCache.early_initialization``
    set another; ``generate`` sets the configuration's before it prefills in chunks.
    """
    heads, number = len(getattr(core, _LEFT).groups), layer_number(core, kwargs)
    allocators = getattr(kwargs.get("cache"), "layer_to_allocator", {})
    if heads and getattr(allocators.get(number), "num_key_value_heads", heads) != heads:
        raise ValueError(f"continuous batching has pages {_AS_CONFIGURED}")
    cache = _cache((*args, *kwargs.values()))
    if isinstance(cache, EncoderDecoderCache):
        outside = any(isinstance(kwargs.get(name), Tensor) for name in OUTSIDE)
        cache = cache.cross_attention_cache if outside else cache.self_attention_cache
    if not isinstance(cache, Cache) or number is None or number >= len(cache.layers):
        return
    layer = cache.layers[number]
    if not isinstance(layer, StaticLayer) or not layer.is_initialized:
        return
    width = layer.keys.shape[-1] if heads else 1
    if layer.keys.shape[1::2] == (max(1, heads), width):
        return
    if torch.compiler.is_exporting():
        raise ValueError(f"the exported cache has room {_AS_CONFIGURED}")
    if not int(layer.get_seq_length()):
        layer.is_initialized = False


def _bound(core: Attention, *args: Any, **kwargs: Any) -> inspect.BoundArguments:
    """The arguments of the module's own ``forward``, bound to its parameters' names."""
    return inspect.signature(type(core).forward).bind(core, *args, **kwargs)


def _arguments(core: Attention, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """The same by name, including those in the variable keyword arguments of ``forward``."""
    bound = _bound(core, *args, **kwargs)
    further = (p.name for p in bound.signature.parameters.values() if p.kind is p.VAR_KEYWORD)
    return {**bound.arguments, **bound.arguments.get(next(further, ""), {})}


def _cache(given: Iterable[Any]) -> Cache | EncoderDecoderCache | None:
    """The cache among a module's arguments, which not every model calls ``past_key_values``."""
    return next((value for value in given if isinstance(value, Cache | EncoderDecoderCache)), None)


def _outside(
    given: dict[str, Any], cache: Cache | EncoderDecoderCache | None, shared_slot: bool
) -> Tensor | None:
    """States of another sequence that all keys would be made from; None if there are none.

    Where one cache serves both (Mllama), the model asks it whether a layer has seen an image, so
    the layer must record something there.
    """
    apart = cache is None or (shared_slot and isinstance(cache, EncoderDecoderCache))
    names = OUTSIDE if apart else OUTSIDE[:1]
    return next((given[name] for name in names if isinstance(given.get(name), Tensor)), None)
