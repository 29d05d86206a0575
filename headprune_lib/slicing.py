"""One attention module's weights, sliced down to some of its heads; and how it runs from then on.

Where heads are left, the module's own code runs, with fewer rows in its weights. Two things it
cannot do: take something a head (a position bias) that was made for all the heads there once were,
and reshape zero numbers into zero heads. What replaces them is bound with ``functools.partial``,
which a copied or unpickled model keeps.

The output projection of each pruned attention module has a buffer that says which heads are left. A
buffer is saved with the weights, under the module's path there: whatever writes them (a model around
the pruned one, a model in it, several files, a variant) writes what is gone as well. It lies with a
projection, and not with the module around, so that maps of devices that name projections place it.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, EncoderDecoderCache, StaticLayer
from transformers.pytorch_utils import Conv1D

from headprune_lib.specs import AttentionLayer, AttentionSpec, rows_of

if TYPE_CHECKING:
    from jaxtyping import Int


def keep_heads(model: nn.Module, block: AttentionLayer, keep: Sequence[int]) -> None:
    """Slice one block's weights down to the heads ``keep`` (original indices).

    Raises:
        ValueError: groups that lose unequally many heads; the weights are not checked.
    """
    names, group = block.spec, block.group_left(keep)
    core: Any = block.part(model, "core")  # its class knows what attributes it has
    module: Any = model.get_submodule(block.path)
    positions = [block.kept_heads.index(head) for head in keep]
    for path, rows in head_rows(model, block, keep).items():
        _keep_features(module.get_submodule(path), rows.sort().values, "out")
    columns = _features(positions, block.head_dim)
    for path in names.extra_projections:
        if (more := _submodule(module, path)) is not None:
            width = rows_of(more) // max(1, len(block.kept_heads))
            _keep_features(more, _features(positions, width), "out")
    if not hasattr(core, "headprune_axes"):
        # once: a table of 4 rows and 8 heads has two axes of 4 when 4 heads are left
        core.headprune_axes = dict(_axes_of_heads(module, names.per_head, len(block.kept_heads)))
    for path, axis in core.headprune_axes.items():
        _keep_entries(module, path, axis, positions)
    _keep_features(block.part(model, "output"), columns, "in")
    _say_sizes(core, block, len(keep), group, len(columns))
    if not hasattr(core, "headprune_kept"):  # once, too
        core.register_forward_pre_hook(_fit_cache, with_kwargs=True)
        if names.bias_argument:
            take_bias_of_all_heads(core, names)
    core.headprune_n_heads, core.headprune_kept = block.n_heads, tuple(keep)
    core.headprune_width, core.headprune_group = block.head_dim, group
    # with the module: a copy that is loaded where nobody taught its class is understood too
    record = record_of(block, keep)
    module.headprune_architecture, module.headprune_found = names, record["found"]
    write_record(model, block.path, record)
    if not keep:
        shared_slot = shares_cache_slot(model, block.path, core)
        run_without_heads(core, block.part(model, "output"), names, shared_slot=shared_slot)


def head_rows(
    model: nn.Module, block: AttentionLayer, heads: Sequence[int]
) -> dict[str, Int[Tensor, " row"]]:
    """The rows of some heads (original indices) in each projection that makes them.

    Returns:
        path below the block's module -> rows; of a fused projection those of all queries come
        before those of all keys and values.
    """
    names, module = block.spec, model.get_submodule(block.path)
    positions = [block.kept_heads.index(head) for head in heads]
    groups = list(dict.fromkeys(place // block.queries_per_kv for place in positions))
    n_heads, n_groups = len(block.kept_heads), len(block.kept_heads) // block.queries_per_kv
    rows: dict[str, Tensor] = {}
    if names.fused:
        # in the fused projection, of each group
        queries = 0 if names.query else block.queries_per_kv
        width = rows_of(module.get_submodule(names.fused)) // max(1, n_groups * (queries + 2))
        if names.qkv_interleaved:
            step = queries + 2
            first = [place + place // block.queries_per_kv * 2 for place in positions]
            keys = [j * step + queries for j in groups]
            values = [j * step + queries + 1 for j in groups]
        else:
            first = positions
            keys = [n_groups * queries + j for j in groups]
            values = [n_groups * (queries + 1) + j for j in groups]
        rows[names.fused] = _features([*(first if queries else []), *keys, *values], width)
    for path, places, units in (
        (names.query, positions, n_heads),
        (names.key, groups, n_groups),
        (names.value, groups, n_groups),
    ):
        if path is not None:  # else it is fused, or another layer makes the keys and values
            rows[path] = _features(places, rows_of(module.get_submodule(path)) // max(1, units))
    return rows


def value_rows(
    model: nn.Module, block: AttentionLayer, heads: Sequence[int]
) -> Int[Tensor, " row"]:
    """The rows that make the values of some heads, in the fused projection or that of the values."""
    names, rows = block.spec, head_rows(model, block, heads)
    if not names.fused:
        assert names.value is not None
        return rows[names.value]
    fused = rows[names.fused]  # queries, keys, values: as many as heads, as groups, as groups
    n_groups = len({block.kept_heads.index(head) // block.queries_per_kv for head in heads})
    n_queries = 0 if names.query else len(heads)
    return fused[len(fused) - len(fused) * n_groups // (n_queries + 2 * n_groups) :]


def _say_sizes(core: Any, block: AttentionLayer, n_heads: int, group: int, total: int) -> None:
    """Put the new sizes where the module's own code reads them."""
    names = block.spec
    changed = {names.n_heads: n_heads, **dict.fromkeys(names.sizes, total)}
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
    """A configuration with sizes of its own; all else, also what is set later, is the model's.

    That of the model still says what was built.
    """

    def __init__(self, of_model: Any, sizes: dict[str, int]) -> None:
        vars(self).update(sizes, _of_model=of_model)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_of_model" not in vars(self):  # while it is unpickled
            raise AttributeError(name)
        return getattr(self._of_model, name)


def _features(places: Sequence[int], width: int) -> Int[Tensor, " heads*width"]:
    """Columns of the heads at these places, side by side."""
    return (torch.tensor(places, dtype=torch.long)[:, None] * width + torch.arange(width)).flatten()


def _submodule(module: nn.Module, path: str) -> nn.Module | None:
    try:
        return module.get_submodule(path)
    except AttributeError:
        return None


def _axes_of_heads(
    module: nn.Module, paths: Sequence[str], n_heads: int
) -> Iterator[tuple[str, int]]:
    """Path -> the axis of ``n_heads``, of the parameters and buffers that have one."""
    for path in paths:
        holder_path, _, name = path.rpartition(".")
        tensor = getattr(_submodule(module, holder_path), name, None)
        if isinstance(tensor, Tensor) and n_heads in tensor.shape:
            yield path, list(tensor.shape).index(n_heads)


def _keep_entries(module: nn.Module, path: str, axis: int, positions: list[int]) -> None:
    """Keep some heads' entries of a parameter or buffer along its axis of heads."""
    holder_path, _, name = path.rpartition(".")
    holder = module.get_submodule(holder_path)
    tensor = getattr(holder, name)
    index = torch.tensor(positions, dtype=torch.long, device=tensor.device)
    if name in holder._parameters:
        setattr(holder, name, _kept(tensor, axis, index))
    else:
        holder._buffers[name] = tensor.detach().index_select(axis, index)
    if isinstance(holder, nn.Embedding):
        holder.embedding_dim = holder.weight.shape[1]


def _keep_features(linear: nn.Linear | Conv1D, index: Tensor, side: str) -> None:
    """Keep some of a projection's outputs (``"out"``) or inputs (``"in"``)."""
    transposed = isinstance(linear, Conv1D)  # (in, out) where a linear layer has (out, in)
    index = index.to(linear.weight.device)
    linear.weight = _kept(linear.weight, int((side == "in") != transposed), index)
    if side == "out" and linear.bias is not None:
        linear.bias = _kept(linear.bias, 0, index)
    sizes = (
        {"out": "nf", "in": "nx"} if transposed else {"out": "out_features", "in": "in_features"}
    )
    setattr(linear, sizes[side], len(index))


def _kept(parameter: Tensor, axis: int, index: Tensor) -> nn.Parameter:
    return nn.Parameter(parameter.detach().index_select(axis, index), parameter.requires_grad)


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


def record_of(block: AttentionLayer, keep: Sequence[int]) -> Record:
    """What must be known to slice an unpruned module down to the heads ``keep``."""
    names = block.spec
    return {
        "kept": list(keep),
        "architecture": {
            field.name: value
            for field in fields(AttentionSpec)
            if (value := getattr(names, field.name)) != field.default
        },
        "found": {
            field.name: getattr(block, field.name)
            for field in fields(AttentionLayer)
            if field.name == "kind" or field.default is not MISSING  # what a module does not tell
        },
    }


Attention = Any  # a module with attributes that its own class alone knows
_NUMBERS = ("layer_idx", "layer_id", "layer_number")
OUTSIDE = ("key_value_states", "encoder_hidden_states", "cross_attention_states", "memory")
"""What modules call the states that their keys are made of, where these are not their own."""
_AS_CONFIGURED = (
    "for the key and value heads that the configuration names, and some of these were removed. Use "
    "generate without it, or prune every layer alike (uniform_mask), write the model with "
    "export_transformers and load that"
)
_BIAS = "_headprune_bias"  # the bias of all heads, while a forward pass of the module lasts


def take_bias_of_all_heads(core: Attention, names: AttentionSpec) -> None:
    """From now on the module takes and returns the bias of all heads, and uses its own heads'."""
    assert names.bias_argument is not None
    returned = names.bias_output is not None
    core.register_forward_pre_hook(
        partial(_own_bias, names.bias_argument, returned), with_kwargs=True
    )
    if names.bias_output is not None:
        core.register_forward_hook(partial(_whole_bias, names.bias_output))
        if hasattr(core, "compute_bias"):
            core.compute_bias = partial(_own_computed_bias, core)


def run_without_heads(
    core: Attention, output: nn.Module, names: AttentionSpec, *, shared_slot: bool = False
) -> None:
    """From now on the module contributes the bias of its output projection, and nothing else.

    ``shared_slot`` says that another module counts its layer's own tokens: :func:`shares_cache_slot`.
    """
    core.forward = partial(_attend_with_no_head, core, names, shared_slot)
    for module in (*core.modules(), *output.modules()):
        if isinstance(module, nn.Linear) and not module.weight.numel():
            # quantize_dynamic leaves it as it is: of no number it would choose no scale
            vars(module)["qconfig"] = None
    if isinstance(output, Conv1D):
        output.forward = partial(_bias_alone, output)


def layer_number(core: Attention, given: Mapping[str, Any] = MappingProxyType({})) -> int | None:
    """The place of the module's keys and values in a cache; None where it keeps none.

    Args:
        given: the module's arguments: one that runs in several places of the model (Zamba, HRM) is
            told in which it runs.
    """
    number = next((getattr(core, name) for name in _NUMBERS if hasattr(core, name)), None)
    number = given.get("layer_idx", number)
    return None if number is None else number + given.get("cycle_offset", 0)


def shares_cache_slot(model: nn.Module, path: str, core: Attention) -> bool:
    """Whether another attention module has the same place in a cache, in the same layer.

    Cross-attention has: the self-attention beside it notes the tokens that went by. T5Gemma 2's
    single module attends to both sides and notes them itself.
    """
    inside, number = set(core.modules()), layer_number(core)
    while path and number is not None:
        path = path.rpartition(".")[0]
        numbers = [
            layer_number(module)
            for module in model.get_submodule(path).modules()
            if module not in inside and core not in module.modules()
        ]
        if any(other is not None for other in numbers):
            return number in numbers
    return False


def _own_bias(
    argument: str, returned: bool, core: Attention, args: tuple, kwargs: dict[str, Any]
) -> tuple[tuple, dict[str, Any]]:
    given = _bound(core, *args, **kwargs)
    bias = given.arguments.get(argument)
    # (batch, head, query, key); a mask for all heads alike is given in the same place
    if bias is not None and bias.shape[1] == core.headprune_n_heads:
        if returned:
            setattr(core, _BIAS, bias)
        given.arguments[argument] = bias[:, list(core.headprune_kept)]
    return given.args[1:], given.kwargs


def _own_computed_bias(core: Attention, *args: Any, **kwargs: Any) -> Tensor:
    bias = type(core).compute_bias(core, *args, **kwargs)
    setattr(core, _BIAS, bias)
    return bias[:, list(core.headprune_kept)]


def _whole_bias(place: int, core: Attention, _inputs: tuple, outputs: tuple) -> tuple:
    kept_bias, bias = outputs[place], core.__dict__.pop(_BIAS, None)
    if bias is None:  # attention without positions makes a bias of zeros
        bias = kept_bias.new_zeros(len(kept_bias), core.headprune_n_heads, *kept_bias.shape[-2:])
    return (*outputs[:place], bias, *outputs[place + 1 :])


def _attend_with_no_head(
    core: Attention, names: AttentionSpec, shared_slot: bool, *args: Any, **kwargs: Any
) -> Tensor | tuple[Tensor | None, ...]:
    """In place of the module's own ``forward``.

    The cache still learns how many tokens went by: generation reads it off the first layer. Tokens
    of an encoder are none of these; where self- and cross-attention have a cache each, they are
    noted once in that of the latter.
    """
    given = _arguments(core, *args, **kwargs)
    # what the module is given first, whatever it calls it: (batch, position, hidden)
    hidden_states: Tensor = list(given.values())[1]
    length = key_length = hidden_states.shape[1]
    past: int | Tensor = 0
    cache, number = _cache(given.values()), layer_number(core, given)
    if (outside := _outside(given, cache, shared_slot)) is not None:
        key_length = outside.shape[1]
        if isinstance(cache, EncoderDecoderCache) and not cache.is_updated.get(number):
            new = outside.new_zeros(hidden_states.shape[0], 1, key_length, 1)
            cache.cross_attention_cache.update(new, new, number)
            cache.is_updated[number] = True
    elif cache is not None and names.makes_keys:
        cache = getattr(cache, "self_attention_cache", cache)
        past = cache.get_seq_length(number)
        if isinstance(past, Tensor):
            past = past.clone()  # a static cache counts on in the same tensor
        new = hidden_states.new_zeros(hidden_states.shape[0], 1, length, 1)
        # of a static cache this is the length that it was made for
        key_length = cache.update(new, new, number)[0].shape[-2]
    context = hidden_states.new_zeros(*hidden_states.shape[:-1], 0)
    if not names.core:  # else the module around the core applies the output projection
        context = core.get_submodule(names.output)(context)
        if names.norm:
            context = core.get_submodule(names.norm)(hidden_states + context)
    outputs: list[Tensor | None] = [context, *[None] * (names.returns - 1)]
    if names.bias_output is not None:
        computes = getattr(core, "has_relative_attention_bias", False)
        if computes and given.get(names.bias_argument or "") is None:
            # for the layers above; the hook of a pruned module puts that of all heads in its place
            core.compute_bias(
                length, key_length, device=hidden_states.device, past_seen_tokens=past
            )
        outputs[names.bias_output] = hidden_states.new_zeros(1, 0, length, key_length)
    # Models drop a layer that returns no weights from their `attentions`, so that the layers after it
    # would move up. Some modules always return what their kernel makes, others only if asked.
    weights = hidden_states.new_zeros(hidden_states.shape[0], 0, length, key_length)
    eager = getattr(getattr(core, "config", None), "_attn_implementation", "eager") == "eager"
    takes = inspect.signature(type(core).forward).parameters
    asked = "output_attentions" in takes and given.get("output_attentions")
    for place in names.weights:
        if place < names.returns and eager:
            outputs[place] = weights
        elif place == len(outputs) and asked:
            outputs.append(weights)
    return context if len(outputs) == 1 and not names.in_tuple else tuple(outputs)


def _fit_cache(core: Attention, args: tuple, kwargs: dict[str, Any]) -> None:
    """Let a static cache that was filled with zeros for all heads start anew with those left.

    A layer of it takes its size from the first keys, unless ``StaticCache.early_initialization``
    was told another; ``generate`` tells the configuration's before it prefills in chunks.

    Raises:
        ValueError: a cache that cannot start anew: one that is exported, or is paged.
    """
    heads = len(core.headprune_kept) // core.headprune_group
    number = layer_number(core, kwargs)
    if heads and "cache" in kwargs:
        allocators = getattr(kwargs["cache"], "layer_to_allocator", {})
        if getattr(allocators.get(number), "num_key_value_heads", heads) != heads:
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
    """What the module's own ``forward`` is given, under the names that it has there."""
    return inspect.signature(type(core).forward).bind(core, *args, **kwargs)


def _arguments(core: Attention, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """The same by name, those among it that ``forward`` takes without naming them."""
    bound = _bound(core, *args, **kwargs)
    further = (p.name for p in bound.signature.parameters.values() if p.kind is p.VAR_KEYWORD)
    return {**bound.arguments, **bound.arguments.get(next(further, ""), {})}


def _cache(given: Iterable[Any]) -> Cache | EncoderDecoderCache | None:
    """The cache among a module's arguments, which not every model calls ``past_key_values``."""
    return next((one for one in given if isinstance(one, Cache | EncoderDecoderCache)), None)


def _outside(
    given: dict[str, Any], cache: Cache | EncoderDecoderCache | None, shared_slot: bool
) -> Tensor | None:
    """States of another sequence that all keys would be made of; None where nothing says so.

    Where one cache serves both (Mllama), the model asks it whether a layer has seen an image, so
    that the layer must note something there.
    """
    apart = cache is None or (shared_slot and isinstance(cache, EncoderDecoderCache))
    names = OUTSIDE if apart else OUTSIDE[:1]
    return next((given[name] for name in names if isinstance(given.get(name), Tensor)), None)


def _bias_alone(projection: Conv1D, nothing: Tensor) -> Tensor:
    """In place of a transposed projection's ``forward``, which cannot reshape zero numbers."""
    return projection.bias.expand(*nothing.shape[:-1], -1)
