"""Conversion of a fairseq Transformer's arguments and weights to a model of transformers.

Post-norm models become a ``MarianMTModel``, pre-norm ones an M2M100; these name most parts as
fairseq does. Differences: fairseq counts positions from ``padding + 1``, and Marian has another
table of sinusoids; old checkpoints keep query, key and value in one matrix, and number the norms.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    PreTrainedModel,
)

if TYPE_CHECKING:
    from jaxtyping import Float


START, PAD, END, UNKNOWN = range(4)  # ids of fairseq's special symbols


class PreNormTranslator(M2M100ForConditionalGeneration):
    """M2M100 whose source may have a vocabulary of its own.

    ``config.encoder_vocab_size`` is the source's, ``config.vocab_size`` the target's; no embeddings
    are tied. If all are tied, M2M100 itself is used.
    """

    def __init__(self, config: M2M100Config) -> None:
        super().__init__(config)
        encoder, decoder = self.model.encoder, self.model.decoder
        target = decoder.embed_tokens
        encoder.embed_tokens = type(target)(
            config.encoder_vocab_size,
            target.embedding_dim,
            target.padding_idx,
            embed_scale=target.embed_scale,
        )
        self.model.shared = target  # M2M100 has a third table, which nothing reads here


# Arguments that change the computation, with the only value that these models support.
_ONLY = {
    "no_decoder_final_norm": False,
    "layernorm_embedding": False,
    "no_cross_attention": False,
    "cross_self_attention": False,
    "adaptive_softmax_cutoff": None,
    "adaptive_input": False,
    "no_token_positional_embeddings": False,
    "no_encoder_attn": False,
    "char_inputs": False,
    "encoder_layers_to_keep": None,
    "decoder_layers_to_keep": None,
    "adapter_num_layers": 0,
}
_SIDES = ("encoder", "decoder")
_SIZES = {"layers": "layers", "attention_heads": "attention_heads", "ffn_dim": "ffn_embed_dim"}
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu"}
_NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
# Buffers and counters without weights.
_NO_WEIGHTS = re.compile(r"\.(version|embed_positions\._float_tensor)$")


def convert(arguments: dict[str, Any], weights: dict[str, Tensor]) -> PreTrainedModel:
    """A model in evaluation mode that computes what fairseq's does, in float32.

    Raises:
        ValueError: an argument without counterpart (it is named), or weights that are missing
            or left over.
    """
    for why in _why_not(arguments):
        raise ValueError(why)
    modern = _modern(weights).items()
    weights = {name: x.float() for name, x in modern if not _NO_WEIGHTS.search(name)}
    model = _new(arguments, weights)
    renamed, expected = _renamed(arguments, weights, model), model.state_dict()
    missing = expected.keys() - renamed.keys() - {"final_logits_bias"}
    extra = renamed.keys() - expected.keys()
    if missing or extra:
        raise ValueError(
            f"the checkpoint does not fit a {type(model).__name__}: missing "
            f"{sorted(missing)[:4]}, left over {sorted(extra)[:4]}"
        )
    for name, tensor in renamed.items():
        if tensor.shape != expected[name].shape:
            shape, said = tuple(tensor.shape), tuple(expected[name].shape)
            raise ValueError(f"{name} has shape {shape}, but the arguments say {said}")
    model.load_state_dict(renamed, strict=False)
    # as in fairseq's search: a translation has at least one piece, and no padding
    model.generation_config.update(suppress_tokens=[PAD], min_new_tokens=1)
    if isinstance(model, MarianMTModel):
        # this table of positions is not the one that transformers would build
        model._keys_to_ignore_on_save = None
    return model.eval()


def _new(arguments: dict[str, Any], weights: dict[str, Tensor]) -> PreTrainedModel:
    """A model of the checkpoint's shape, with random weights."""
    fields = _config(arguments, weights)
    if not _before(arguments):
        return MarianMTModel(MarianConfig(**fields))
    shared = fields.pop("share_encoder_decoder_embeddings")
    source, target = fields.pop("vocab_size"), fields.pop("decoder_vocab_size")
    fields |= {"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "vocab_size": target}
    if shared:
        return M2M100ForConditionalGeneration(M2M100Config(**fields))
    # embeddings that fairseq ties in the decoder alone are stored twice
    fields["tie_word_embeddings"] = False
    return PreNormTranslator(M2M100Config(**fields, encoder_vocab_size=source))


def _before(arguments: dict[str, Any]) -> bool:
    return bool(arguments.get("encoder_normalize_before"))


def _why_not(arguments: dict[str, Any]) -> Iterator[str]:
    """Reasons why transformers has no counterpart for the arguments."""
    for name, only in _ONLY.items():
        if (arguments.get(name, only) or False) != (only or False):
            yield f"{name} is {arguments[name]!r}, but transformers supports only {only!r}"
    widths = [arguments[f"{side}_embed_dim"] for side in _SIDES]
    if widths[0] != widths[1]:
        yield f"encoder and decoder have widths {widths}, but MarianMTModel has one for both"
    for name in ("decoder_output_dim", "decoder_input_dim"):
        if arguments.get(name) not in (None, widths[1]):
            yield f"{name} is {arguments[name]}, not {widths[1]}: MarianMTModel has one width"
    if (activation := arguments.get("activation_fn", "relu")) not in _ACTIVATIONS:
        yield f"activation_fn is {activation!r}, expected one of {sorted(_ACTIVATIONS)}"
    learned, before = (
        [bool(arguments.get(f"{side}_{name}")) for side in _SIDES]
        for name in ("learned_pos", "normalize_before")
    )
    if learned[0] != learned[1]:
        yield "positions are learned on one side only, which is not supported"
    if before[0] != before[1]:
        yield "the norm is before the blocks of one side only, which is not supported"
    if before[0] and learned[0]:
        yield "positions are learned and the norm is before each block: no model supports both"


def _modern(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights under the names that fairseq has had since 0.9."""
    modern = {}
    for name, tensor in weights.items():
        norm = re.fullmatch(r"(encoder|decoder)\.layers\.(\d+)\.layer_norms\.(\d)\.(\w+)", name)
        fused = re.fullmatch(r"(.*)\.in_proj_(weight|bias)", name)
        if norm:
            side, layer, number, kind = norm.groups()
            modern[f"{side}.layers.{layer}.{_NORMS[side][int(number)]}.{kind}"] = tensor
        elif fused:
            for part, third in zip("qkv", tensor.chunk(3), strict=True):
                modern[f"{fused[1]}.{part}_proj.{fused[2]}"] = third
        else:
            modern[name] = tensor
    return modern


def _config(arguments: dict[str, Any], weights: dict[str, Tensor]) -> dict[str, Any]:
    """The checkpoint's shape as fields of Marian's configuration."""
    source, target = (weights[f"{side}.embed_tokens.weight"] for side in _SIDES)
    shared = bool(arguments.get("share_all_embeddings"))
    tied = shared or bool(arguments.get("share_decoder_input_output_embed"))
    if not tied and _output(weights) is None:
        raise ValueError("the checkpoint has no weights of the output projection")
    lengths = [arguments.get(f"max_{side}_positions") or 1024 for side in ("source", "target")]
    return {
        "vocab_size": len(source),
        "decoder_vocab_size": len(target),
        "d_model": source.shape[1],
        "share_encoder_decoder_embeddings": shared,
        "tie_word_embeddings": tied,
        **{
            f"{side}_{name}": arguments[f"{side}_{theirs}"]
            for side in _SIDES
            for name, theirs in _SIZES.items()
        },
        "activation_function": _ACTIVATIONS[arguments.get("activation_fn", "relu")],
        "scale_embedding": not arguments.get("no_scale_embedding", False),
        "max_position_embeddings": min(lengths),
        "dropout": arguments.get("dropout", 0.1),
        "pad_token_id": PAD,
        "eos_token_id": END,
        "bos_token_id": None,
        "decoder_start_token_id": END,
        "forced_eos_token_id": None,
    }


def _output(weights: dict[str, Tensor]) -> Tensor | None:
    """The output projection, which fairseq 0.9 kept as ``embed_out``; None if there is none."""
    return weights.get("decoder.output_projection.weight", weights.get("decoder.embed_out"))


def _renamed(
    arguments: dict[str, Any], weights: dict[str, Tensor], model: PreTrainedModel
) -> dict[str, Tensor]:
    """The checkpoint's weights under the model's names."""
    skipped = ("decoder.output_projection.weight", "decoder.embed_out")
    renamed = {f"model.{name}": tensor for name, tensor in weights.items() if name not in skipped}
    decoder = weights["decoder.embed_tokens.weight"]
    output = _output(weights)
    renamed["lm_head.weight"] = decoder if output is None else output
    if arguments.get("share_all_embeddings") or isinstance(model, PreNormTranslator):
        renamed["model.shared.weight"] = decoder
    if _before(arguments):  # M2M100 computes fairseq's positions itself
        return renamed
    n_positions = model.config.max_position_embeddings
    for side in _SIDES:
        name = f"model.{side}.embed_positions.weight"
        if arguments.get(f"{side}_learned_pos"):
            renamed[name] = renamed[name][PAD + 1 : PAD + 1 + n_positions]
        else:
            renamed[name] = _sinusoids(n_positions, decoder.shape[1])
    return renamed


def _sinusoids(n_positions: int, width: int) -> Float[Tensor, "position width"]:
    """fairseq's table of positions: sines in the first half, then cosines."""
    half = width // 2
    rates = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
    angles = torch.arange(PAD + 1, PAD + 1 + n_positions)[:, None] * rates
    table = torch.cat([angles.sin(), angles.cos()], dim=1)
    return torch.nn.functional.pad(table, (0, width % 2))
