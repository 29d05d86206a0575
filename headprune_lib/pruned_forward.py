"""How an attention module runs once some of its heads, or all, are gone.

Where heads are left, the module's own code does, with fewer rows in its weights. Two things it
cannot do: take something a head (a position bias) that was made for all the heads there once were,
and reshape zero numbers into zero heads. What replaces them is bound with ``functools.partial``,
which a copied or unpickled model keeps.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from torch import Tensor, nn
from transformers.cache_utils import Cache, EncoderDecoderCache
from transformers.pytorch_utils import Conv1D

from headprune_lib.architectures import Architecture

Attention = Any  # a module with attributes that its own class alone knows
_NUMBERS = ("layer_idx", "layer_id", "layer_number")
OUTSIDE = ("key_value_states", "encoder_hidden_states", "cross_attention_states", "memory")
"""What modules call the states that their keys are made of, where these are not their own."""
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


def run_without_heads(
    core: Attention, output: nn.Module, names: Architecture, *, beside: bool = False
) -> None:
    """From now on the module contributes the bias of its output projection, and nothing else.

    ``beside`` says that another module counts its layer's own tokens: :func:`counted_beside`.
    """
    core.forward = partial(_attend_with_no_head, core, names, beside)
    if isinstance(output, Conv1D):
        output.forward = partial(_bias_alone, output)


def layer_number(core: Attention) -> int | None:
    """The place of the module's keys and values in a cache; None where it keeps none."""
    return next((getattr(core, name) for name in _NUMBERS if hasattr(core, name)), None)


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
    of an encoder are none of these; where self- and cross-attention have a cache each, the one of
    the latter stays as it is.
    """
    bound = _bound(core, *args, **kwargs).arguments
    # what the module is given first, whatever it calls it: (batch, position, hidden)
    hidden_states: Tensor = list(bound.values())[1]
    given = {**bound, **bound.get("kwargs", {})}
    length = key_length = hidden_states.shape[1]
    cache = _cache(given)
    if (outside := _outside(given, cache, beside)) is not None:
        key_length = outside.shape[1]
    elif cache is not None and names.makes_keys:
        cache = getattr(cache, "self_attention_cache", cache)
        new = hidden_states.new_zeros(len(hidden_states), 1, length, 1)
        key_length = cache.update(new, new, layer_number(core))[0].shape[-2]
    made = hidden_states.new_zeros(*hidden_states.shape[:-1], 0)
    if not names.core:  # else the module around the core applies the output projection
        made = core.get_submodule(names.output)(made)
        if names.norm:
            made = core.get_submodule(names.norm)(hidden_states + made)
    if names.returns == 1:
        return (made,) if names.in_tuple else made
    outputs: list[Tensor | None] = [made, *[None] * (names.returns - 1)]
    if names.bias_output is not None:
        if getattr(core, "has_relative_attention_bias", False) and (
            given.get(names.bias_argument or "") is None
        ):
            # for the layers above; the hook of a pruned module puts that of all heads in its place
            core.compute_bias(
                length,
                key_length,
                device=hidden_states.device,
                past_seen_tokens=key_length - length,
            )
        outputs[names.bias_output] = hidden_states.new_zeros(1, 0, length, key_length)
    return tuple(outputs)


def _bound(core: Attention, *args: Any, **kwargs: Any) -> inspect.BoundArguments:
    """What the module's own ``forward`` is given, under the names that it has there."""
    return inspect.signature(type(core).forward).bind(core, *args, **kwargs)


def _cache(given: dict[str, Any]) -> Cache | EncoderDecoderCache | None:
    """The cache among a module's arguments, which not every model calls ``past_key_values``."""
    return next(
        (one for one in given.values() if isinstance(one, Cache | EncoderDecoderCache)), None
    )


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
