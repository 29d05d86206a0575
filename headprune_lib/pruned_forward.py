"""How an attention module runs once some of its heads, or all, are gone.

Where heads are left, the module's own code does, with fewer rows in its weights. Two things it
cannot do: take something a head (a position bias) that was made for all the heads there once were,
and reshape zero numbers into zero heads. What replaces them is bound with ``functools.partial``,
which a copied or unpickled model keeps.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, EncoderDecoderCache, StaticLayer
from transformers.pytorch_utils import Conv1D

from headprune_lib.specs import Architecture

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


def take_bias_of_all_heads(core: Attention, names: Architecture) -> None:
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


def fit_caches(core: Attention) -> None:
    """From now on a cache that was made for all key and value heads is made for those left."""
    core.register_forward_pre_hook(_fit_cache, with_kwargs=True)


def run_without_heads(
    core: Attention, output: nn.Module, names: Architecture, *, beside: bool = False
) -> None:
    """From now on the module contributes the bias of its output projection, and nothing else.

    ``beside`` says that another module counts its layer's own tokens: :func:`counted_beside`.
    """
    core.forward = partial(_attend_with_no_head, core, names, beside)
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
    own = next((getattr(core, name) for name in _NUMBERS if hasattr(core, name)), None)
    number = given.get("layer_idx", own)
    return None if number is None else number + given.get("cycle_offset", 0)


def counted_beside(model: nn.Module, path: str, core: Attention) -> bool:
    """Whether another attention module has the same place in a cache, in the same layer.

    Cross-attention has: the self-attention beside it notes the tokens that went by. T5Gemma 2's
    single module attends to both sides and notes them itself.
    """
    own, number = set(core.modules()), layer_number(core)
    while path and number is not None:
        path = path.rpartition(".")[0]
        around = model.get_submodule(path)
        others = [
            layer_number(one)
            for one in around.modules()
            if layer_number(one) is not None and one not in own and core not in one.modules()
        ]
        if others:
            return number in others
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
    own, whole = outputs[place], core.__dict__.pop(_BIAS, None)
    if whole is None:  # attention without positions makes a bias of zeros
        whole = own.new_zeros(len(own), core.headprune_n_heads, *own.shape[-2:])
    return (*outputs[:place], whole, *outputs[place + 1 :])


def _attend_with_no_head(
    core: Attention, names: Architecture, beside: bool, *args: Any, **kwargs: Any
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
    if (outside := _outside(given, cache, beside)) is not None:
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
    made = hidden_states.new_zeros(*hidden_states.shape[:-1], 0)
    if not names.core:  # else the module around the core applies the output projection
        made = core.get_submodule(names.output)(made)
        if names.norm:
            made = core.get_submodule(names.norm)(hidden_states + made)
    outputs: list[Tensor | None] = [made, *[None] * (names.returns - 1)]
    if names.bias_output is not None:
        if getattr(core, "has_relative_attention_bias", False) and (
            given.get(names.bias_argument or "") is None
        ):
            # for the layers above; the hook of a pruned module puts that of all heads in its place
            core.compute_bias(
                length, key_length, device=hidden_states.device, past_seen_tokens=past
            )
        outputs[names.bias_output] = hidden_states.new_zeros(1, 0, length, key_length)
    _keep_place_of_weights(core, names, given, outputs, key_length)
    return made if len(outputs) == 1 and not names.in_tuple else tuple(outputs)


def _keep_place_of_weights(
    core: Attention,
    names: Architecture,
    given: dict[str, Any],
    outputs: list[Tensor | None],
    key_length: int,
) -> None:
    """Put attention weights of no head where the module's own code returns those of its heads.

    Models drop a layer that returns none from their ``attentions``, so that the layers after it
    would move up. Some modules always return what their kernel makes, others only if asked.
    """
    hidden_states = outputs[0]
    assert hidden_states is not None
    weights = hidden_states.new_zeros(
        hidden_states.shape[0], 0, hidden_states.shape[1], key_length
    )  # (batch, no head, query, key)
    config = getattr(core, "config", None)
    eager = getattr(config, "_attn_implementation", "eager") == "eager"
    takes = inspect.signature(type(core).forward).parameters
    asked = "output_attentions" in takes and given.get("output_attentions")
    for place in names.weights:
        if place < names.returns and eager:
            outputs[place] = weights
        elif place == len(outputs) and asked:
            outputs.append(weights)


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
    given: dict[str, Any], cache: Cache | EncoderDecoderCache | None, beside: bool
) -> Tensor | None:
    """States of another sequence that all keys would be made of; None where nothing says so.

    Where one cache serves both (Mllama), the model asks it whether a layer has seen an image, so
    that the layer must note something there.
    """
    apart = cache is None or (beside and isinstance(cache, EncoderDecoderCache))
    names = OUTSIDE if apart else OUTSIDE[:1]
    return next((given[name] for name in names if isinstance(given.get(name), Tensor)), None)


def _bias_alone(projection: Conv1D, nothing: Tensor) -> Tensor:
    """In place of a transposed projection's ``forward``, which cannot reshape zero numbers."""
    return projection.bias.expand(*nothing.shape[:-1], -1)
