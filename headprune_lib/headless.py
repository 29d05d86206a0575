"""What attention does once no head of a layer is left."""

from __future__ import annotations

from torch import Tensor, nn

from headprune_lib.architectures import ARCHITECTURES


def headless_forward(core: nn.Module, hidden_states: Tensor, *_args, past_key_values=None,
                     key_value_states=None, **kwargs):
    """In place of the module's own ``forward``, which would reshape zero numbers into heads.

    What is left of attention is the output projection's bias. The cache still learns how many
    tokens went by: generation reads it off the first layer.
    """
    length = key_length = hidden_states.shape[1]
    if key_value_states is not None:
        key_length = key_value_states.shape[1]
    elif past_key_values is not None:
        cache = getattr(past_key_values, "self_attention_cache", past_key_values)
        new = hidden_states.new_zeros(len(hidden_states), 1, length, 1)
        key_length = cache.update(new, new, core.layer_idx)[0].shape[-2]
    nothing = hidden_states.new_zeros(*hidden_states.shape[:-1], 0)
    names = ARCHITECTURES.get(type(core).__name__)
    if names is None:  # the core of a module that applies the output projection itself
        return nothing, None
    made = core.get_submodule(names.output)(nothing)
    if names.norm:
        made = core.get_submodule(names.norm)(hidden_states + made)
    if names.returns == 1:
        return made
    outputs = [made, *[None] * (names.returns - 1)]
    if names.bias_output is not None:
        if getattr(core, "has_relative_attention_bias", False) and (
                kwargs.get(names.bias_argument) is None):
            # for the layers above; the hook of a pruned module puts that of all heads in its place
            core.compute_bias(length, key_length, device=hidden_states.device,
                              past_seen_tokens=key_length - length)
        outputs[names.bias_output] = hidden_states.new_zeros(1, 0, length, key_length)
    return tuple(outputs)


def bias_alone(projection: nn.Module, nothing: Tensor) -> Tensor:
    """In place of a transposed projection's ``forward``, which cannot reshape zero numbers."""
    return projection.bias.expand(*nothing.shape[:-1], -1)
