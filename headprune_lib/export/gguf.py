"""Models in files of llama.cpp (``.gguf``): a pruned Llama written, any language model read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from headprune_lib.discovery import find_heads
from headprune_lib.export.comparing import unwrap_compiled
from headprune_lib.messages import one_line, quiet

# llama.cpp's architectures: Llama, and Llama with numbers of heads, or none, of each layer's own
EVEN, UNEVEN = "llama", "deci"
_CLASSES = ("LlamaForCausalLM", "MistralForCausalLM")
_IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


@dataclass(frozen=True)
class ExportedFile:
    """What was written.

    Attributes:
        path: the file.
        architecture: llama.cpp's name of the architecture.
        tokenizer: the file that the tokenizer came from, or ``"none"``: token ids alone.
    """

    path: Path
    architecture: str
    tokenizer: str


def export_gguf(
    model: PreTrainedModel,
    path: str | os.PathLike,
    *,
    tokenizer_from: str | os.PathLike | None = None,
) -> ExportedFile:
    """Write a Llama, or a Mistral without a sliding window, as a GGUF file in float32.

    Layers may have any numbers of heads left; the first needs one. Where all have as many it is
    llama.cpp's architecture ``llama``; else ``deci``, the same with numbers of heads for each
    layer, and with layers that have none. Quantise the file with llama.cpp's own
    ``llama-quantize``. Nothing here opens the file again: a test compares the logits of llama.cpp
    with the model's.

    Args:
        tokenizer_from: a GGUF file of the unpruned model, whose tokenizer is copied. Without one
            the file takes token ids alone.

    Raises:
        FileExistsError: the file is there.
        FileNotFoundError: ``tokenizer_from`` is not.
        ValueError: the extra ``gguf`` is not installed; or a model that the architecture does not
            describe: another class or activation, biases, a sliding window, scaled rotary positions
            other than Llama 3's, a first layer without heads.
    """
    model, path = unwrap_compiled(model), Path(path)
    if path.exists():
        raise FileExistsError(f"{path} is there already; choose a new name for the file")
    if tokenizer_from is not None and not Path(tokenizer_from).is_file():
        raise FileNotFoundError(f"no file {tokenizer_from} to take the tokenizer from")
    if find_spec("gguf") is None:
        raise ValueError("GGUF needs gguf, not installed: pip install 'headprune[gguf]'")
    _check_described(model)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as around:
        staged = Path(around) / "staged"
        architecture = _write(model, staged, tokenizer_from)
        staged.rename(path)
    return ExportedFile(path, architecture, str(tokenizer_from or "none"))


def _check_described(model: PreTrainedModel) -> None:
    name, config = type(model).__name__, model.config
    otherwise = "; save_pruned and load_pruned keep it, and --format onnx writes it"
    if name not in _CLASSES:
        raise ValueError(
            f"{name} has no architecture in llama.cpp that takes numbers of heads for each layer, "
            f"which {' and '.join(_CLASSES)} have in its {UNEVEN!r}{otherwise}"
        )
    released = type(model) is getattr(transformers, name)
    if not released or any(block.source != "table" for block in find_heads(model)):
        raise ValueError(
            f"{name}, or its attention, runs other code than that of transformers, and llama.cpp "
            f"would not run it{otherwise}"
        )
    if further := _further_weights(model):
        raise ValueError(
            f"llama.cpp's {UNEVEN!r} has no {further[0]}; merge an adapter first, "
            f"model = model.merge_and_unload(){otherwise}"
        )
    if config.hidden_act != "silu":
        raise ValueError(
            f"llama.cpp's {EVEN!r} and {UNEVEN!r} compute silu, and this model "
            f"{config.hidden_act}{otherwise}"
        )
    if getattr(config, "sliding_window", None):
        raise ValueError(
            f"llama.cpp's {UNEVEN!r} has no sliding window, and this model's is "
            f"{config.sliding_window}{otherwise}"
        )
    kind = config.rope_parameters["rope_type"]
    if kind not in ("default", "llama3"):
        raise ValueError(f"rotary positions scaled by {kind!r} are not written{otherwise}")
    if not find_heads(model)[0].kept_heads:
        raise ValueError(
            "the first layer has no heads left, and llama.cpp reads the width of a head only where "
            f"the first layer has some: keep one there (prune with --keep-at-least 1){otherwise}"
        )


def _further_weights(model: PreTrainedModel) -> list[str]:
    """Weights that no tensor of the file has a place for, such as biases and adapters."""
    known = {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"}
    known |= {
        f"{block.layer_path}.{part}.weight"
        for block in find_heads(model)
        for part in _IN_LAYER.values()
    }
    return [name for name, _ in model.named_parameters() if name not in known]


def _write(model: PreTrainedModel, path: Path, tokenizer_from: str | os.PathLike | None) -> str:
    """Returns llama.cpp's name of the architecture."""
    import gguf

    config, blocks = model.config, find_heads(model)
    heads = [(len(block.kept_heads), len(block.groups)) for block in blocks]
    even = len(set(heads)) == 1
    writer = gguf.GGUFWriter(path, EVEN if even else UNEVEN)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_vocab_size(config.vocab_size)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(len(blocks))
    wide = config.intermediate_size
    writer.add_feed_forward_length(wide if even else [wide] * len(blocks))
    writer.add_head_count(heads[0][0] if even else [queries for queries, _ in heads])
    writer.add_head_count_kv(heads[0][1] if even else [groups for _, groups in heads])
    for width in (writer.add_key_length, writer.add_value_length, writer.add_rope_dimension_count):
        width(blocks[0].head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    _add_tokenizer(writer, tokenizer_from)
    for name, values in _tensors(model):
        writer.add_tensor(name, values.detach().float().contiguous().numpy(force=True))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return EVEN if even else UNEVEN


def _tensors(model: PreTrainedModel) -> Iterator[tuple[str, Tensor]]:
    """Names and weights as llama.cpp has them; a layer without heads has no attention at all."""
    base: Any = model.model
    yield "token_embd.weight", base.embed_tokens.weight
    if model.config.rope_parameters["rope_type"] == "llama3":
        frequencies = base.rotary_emb.inv_freq.float()
        width = 2 * len(frequencies)
        powers = torch.arange(0, width, 2, device=frequencies.device) / width
        yield (
            "rope_freqs.weight",
            model.config.rope_parameters["rope_theta"] ** -powers / frequencies,
        )
    for block in find_heads(model):
        layer = model.get_submodule(block.layer_path)
        for name, part in _IN_LAYER.items():
            if name.startswith("attn") and not block.kept_heads:
                continue
            weight: Any = layer.get_submodule(part).weight
            if name in ("attn_q", "attn_k"):
                weight = _turned(weight, block.head_dim)
            yield f"blk.{block.layer}.{name}.weight", weight
    yield "output_norm.weight", base.norm.weight
    if not model.config.tie_word_embeddings:
        yield "output.weight", model.get_output_embeddings().weight


def _turned(weight: Tensor, width: int) -> Tensor:
    """Rows of each head in llama.cpp's order: rotary pairs side by side, not half a head apart."""
    halves = weight.unflatten(0, (-1, 2, width // 2))  # (head, half, pair, hidden)
    return halves.transpose(1, 2).flatten(0, 2)


def _add_tokenizer(writer: Any, tokenizer_from: str | os.PathLike | None) -> None:
    if tokenizer_from is None:
        writer.add_tokenizer_model("none")
        return
    import gguf

    reader = gguf.GGUFReader(tokenizer_from)
    fields = [one for name, one in reader.fields.items() if name.startswith("tokenizer.")]
    if not fields:
        raise ValueError(f"{tokenizer_from} holds no tokenizer")
    for one in fields:
        inner = one.types[1] if len(one.types) > 1 else None
        writer.add_key_value(one.name, one.contents(), one.types[0], sub_type=inner)


def read_gguf(path: Path) -> PreTrainedModel:
    """A language model in evaluation mode, its quantised weights put back into numbers.

    Raises:
        ValueError: the extra ``gguf`` is not installed, or the file is damaged or of an
            architecture that transformers does not read.
    """
    _check_reader(path)
    try:
        with quiet():
            read, found = AutoModelForCausalLM.from_pretrained(
                path.parent, gguf_file=path.name, dtype=torch.float32, output_loading_info=True
            )
        _check_all_read(path, read, found)
    except Exception as error:  # whatever the reader makes of bytes that cannot be
        raise ValueError(
            f"{path}: transformers cannot read this file ({one_line(error)})"
        ) from None
    # what was read counts as quantised, although its weights are numbers: it would not be trained
    if hasattr(read.config, "quantization_config"):
        del read.config.quantization_config
    model = AutoModelForCausalLM.from_config(read.config, dtype=torch.float32)
    model.load_state_dict(read.state_dict())
    return model.eval()


def _check_all_read(path: Path, read: Any, found: Mapping[str, Any]) -> None:
    """Raises ValueError where the file lacks weights, which are made up, or holds others."""
    if missing := sorted(found["missing_keys"]):
        raise ValueError(f"it lacks {len(missing)} tensors, such as {missing[0]}")
    names = _tensor_names(path)
    if any(name.startswith("rope_") for name in names):  # of Llama 3.1's scaled positions
        raise ValueError(
            "it holds scaled rotary positions (rope_freqs), which are not put into the model"
        )
    taken = [name for name, _ in read.named_parameters()]
    biases, biases_taken = (sum(name.endswith(".bias") for name in each) for each in (names, taken))
    if biases > biases_taken or len(names) > len(taken):
        raise ValueError(
            f"it holds {len(names)} tensors, {biases} biases among them, and "
            f"{type(read).__name__} takes {len(taken)} and {biases_taken}"
        )


def _tensor_names(path: Path) -> list[str]:
    import gguf

    return [tensor.name for tensor in gguf.GGUFReader(path).tensors]


def read_gguf_tokenizer(path: Path) -> PreTrainedTokenizerBase:
    """The tokenizer in the file.

    Raises:
        FileNotFoundError: there is none.
        ValueError: as of :func:`read_gguf`; or one that transformers does not read.
    """
    _check_reader(path)
    if not _has_tokenizer(path):
        raise FileNotFoundError(f"{path} holds no tokenizer")
    try:
        with quiet():
            return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    except Exception as error:  # whatever the reader makes of bytes that cannot be
        raise ValueError(
            f"{path}: transformers does not read its tokenizer ({one_line(error)})"
        ) from None


def _has_tokenizer(path: Path) -> bool:
    import gguf

    try:
        return "tokenizer.ggml.tokens" in gguf.GGUFReader(path).fields
    except Exception:  # damaged: transformers says how
        return True


def _check_reader(path: Path) -> None:
    if find_spec("gguf") is None:
        raise ValueError(f"{path} is read by gguf, not installed: pip install 'headprune[gguf]'")
