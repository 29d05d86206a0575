"""GGUF files of llama.cpp: write a pruned Llama, read any language model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from headprune_lib.specs import AttentionLayer
from headprune_lib.utils import staged_path

# llama.cpp's architectures: Llama, and Llama with a number of heads, or none, for each layer
EVEN, UNEVEN = "llama", "deci"
_CLASSES = ("LlamaForCausalLM", "MistralForCausalLM")


@dataclass(frozen=True)
class ExportedFile:
    """An exported GGUF file.

    Attributes:
        path: the file.
        architecture: llama.cpp's name of the architecture.
        tokenizer: the file that the tokenizer came from, or ``"none"`` for token ids alone.
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

    Layers may have any number of heads left, the first at least one. If all have equally many, the
    architecture is llama.cpp's ``llama``; otherwise it is ``deci``, the same with a number of heads
    for each layer, which may be none. Quantise the file with llama.cpp's own ``llama-quantize``.
    The file is not read back here: a test compares the logits of llama.cpp with the model's.

    Args:
        tokenizer_from: a GGUF file of the unpruned model, whose tokenizer is copied. Without one
            the file takes token ids alone.

    Raises:
        FileExistsError: the file exists.
        FileNotFoundError: ``tokenizer_from`` does not exist.
        ValueError: the extra ``gguf`` is not installed; or the architecture does not describe the
            model: another class or activation, biases, a sliding window, scaled rotary positions
            other than Llama 3's, a first layer without heads.
    """
    model, path = unwrap_compiled(model), Path(path)
    if path.exists():
        raise FileExistsError(f"{path} already exists. Choose a new name for the file")
    if tokenizer_from is not None and not Path(tokenizer_from).is_file():
        raise FileNotFoundError(f"no file {tokenizer_from} to copy the tokenizer from")
    if find_spec("gguf") is None:
        raise ValueError("GGUF export needs gguf. Run pip install 'headprune[gguf]'")
    blocks = find_heads(model)
    for why in _why_not(model, blocks):
        raise ValueError(f"{why}. Use --format onnx, or save_pruned and load_pruned")
    with staged_path(path) as staged:
        architecture = _write(model, blocks, staged, tokenizer_from)
    return ExportedFile(path, architecture, str(tokenizer_from or "none"))


def _why_not(model: PreTrainedModel, blocks: Sequence[AttentionLayer]) -> Iterator[str]:
    """Reasons why the architecture does not describe a model."""
    name, config = type(model).__name__, model.config
    if name not in _CLASSES:
        yield (
            f"{name} has no architecture in llama.cpp that takes a number of heads for each layer: "
            f"only {' and '.join(_CLASSES)} have one, {UNEVEN!r}"
        )
    released = type(model) is getattr(transformers, name, None)
    if not released or any(block.source != "table" for block in blocks):
        yield (
            f"{name}, or its attention, runs code other than that of transformers, which llama.cpp "
            "does not run"
        )
    for weight, gguf_name in _places(model).items():
        if gguf_name is None:
            yield f"llama.cpp's {UNEVEN!r} has no {weight} (merge adapters first: merge_and_unload)"
    if config.hidden_act != "silu":
        yield f"llama.cpp's {UNEVEN!r} computes silu, but this model computes {config.hidden_act}"
    if window := getattr(config, "sliding_window", None):
        yield f"llama.cpp's {UNEVEN!r} has no sliding window, but this model has one of {window}"
    if (kind := config.rope_parameters["rope_type"]) not in ("default", "llama3"):
        yield f"rotary positions scaled by {kind!r} cannot be written"
    if not blocks[0].kept_heads:
        yield (
            "the first layer has no heads left, but llama.cpp reads the width of a head from it "
            "(prune with --keep-at-least 1)"
        )


def _places(model: PreTrainedModel) -> dict[str, str | None]:
    """Name of each weight -> its name in the file; None for biases, adapters and the like."""
    import gguf

    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, model.config.num_hidden_layers)
    weights = [name for name, _ in model.named_parameters()]
    return {name: names.get_name(name, try_suffixes=(".weight",)) for name in weights}


def _write(
    model: PreTrainedModel,
    blocks: Sequence[AttentionLayer],
    path: Path,
    tokenizer_from: str | os.PathLike | None,
) -> str:
    """Write the file, and return llama.cpp's name of the architecture."""
    import gguf

    config = model.config
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
    for name, values in _tensors(model, blocks):
        writer.add_tensor(name, values.detach().float().contiguous().numpy(force=True))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return EVEN if even else UNEVEN


def _tensors(
    model: PreTrainedModel, blocks: Sequence[AttentionLayer]
) -> Iterator[tuple[str, Tensor]]:
    """Names and weights as llama.cpp has them; a layer without heads has no attention weights."""
    rope, width = model.config.rope_parameters, blocks[0].head_dim
    if rope["rope_type"] == "llama3":
        frequencies = model.get_submodule("model.rotary_emb").inv_freq.float()
        powers = torch.arange(0, width, 2, device=frequencies.device) / width
        yield "rope_freqs.weight", rope["rope_theta"] ** -powers / frequencies
    places = _places(model)
    gone = tuple(f"blk.{block.layer}.attn" for block in blocks if not block.kept_heads)
    for name, weight in model.named_parameters():
        gguf_name, values = str(places[name]), weight
        if gguf_name.startswith(gone):
            continue
        if gguf_name.endswith(("attn_q.weight", "attn_k.weight")):
            # rotary pairs side by side, not half a head apart: (head, half, pair, hidden)
            halves = weight.unflatten(0, (-1, 2, width // 2))
            values = halves.transpose(1, 2).flatten(0, 2)
        yield gguf_name, values


def _add_tokenizer(writer: Any, tokenizer_from: str | os.PathLike | None) -> None:
    if tokenizer_from is None:
        writer.add_tokenizer_model("none")
        return
    import gguf

    reader = gguf.GGUFReader(tokenizer_from)
    fields = [field for name, field in reader.fields.items() if name.startswith("tokenizer.")]
    if not fields:
        raise ValueError(f"{tokenizer_from} contains no tokenizer")
    for field in fields:
        inner = field.types[1] if len(field.types) > 1 else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=inner)


@contextmanager
def _reading(path: Path, what: str) -> Iterator[None]:
    """Turn any error of the readers within the context into a ValueError that names the file."""
    if find_spec("gguf") is None:
        raise ValueError(f"reading {path} needs gguf. Run pip install 'headprune[gguf]'")
    try:
        with quiet():
            yield
    except Exception as error:
        raise ValueError(f"{path}: transformers cannot read {what} ({one_line(error)})") from None


def read_gguf(path: Path) -> PreTrainedModel:
    """Read a language model in evaluation mode, with its weights dequantised.

    Raises:
        ValueError: the extra ``gguf`` is not installed, or the file is damaged or of an
            architecture that transformers does not read.
    """
    with _reading(path, "this file"):
        read, loading_info = AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, dtype=torch.float32, output_loading_info=True
        )
        _check_all_read(path, read, loading_info)
    # transformers marks the model as quantised, though its weights are not, and would not train it
    if hasattr(read.config, "quantization_config"):
        del read.config.quantization_config
    model = AutoModelForCausalLM.from_config(read.config, dtype=torch.float32)
    model.load_state_dict(read.state_dict())
    return model.eval()


def _check_all_read(path: Path, read: Any, found: Mapping[str, Any]) -> None:
    """Raise ValueError if the file lacks weights, which would be made up, or has others."""
    import gguf

    if missing := sorted(found["missing_keys"]):
        raise ValueError(f"it lacks {len(missing)} tensors, such as {missing[0]}")
    names = [tensor.name for tensor in gguf.GGUFReader(path).tensors]
    if any(name.startswith("rope_") for name in names):  # of Llama 3.1's scaled positions
        raise ValueError("it has scaled rotary positions (rope_freqs), which are not supported")
    parameters = [name for name, _ in read.named_parameters()]
    biases, biases_taken = (sum(n.endswith(".bias") for n in each) for each in (names, parameters))
    if biases > biases_taken or len(names) > len(parameters):
        raise ValueError(
            f"it has {len(names)} tensors, {biases} biases among them, but "
            f"{type(read).__name__} takes {len(parameters)} tensors and {biases_taken} biases"
        )


def read_gguf_tokenizer(path: Path) -> PreTrainedTokenizerBase:
    """The tokenizer in the file.

    Raises:
        FileNotFoundError: there is none.
        ValueError: as for :func:`read_gguf`, or a tokenizer that transformers does not read.
    """
    with _reading(path, "its tokenizer"):
        import gguf

        if "tokenizer.ggml.tokens" in gguf.GGUFReader(path).fields:
            return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    raise FileNotFoundError(f"{path} contains no tokenizer")
