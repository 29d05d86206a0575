"""Models in files of llama.cpp (``.gguf``), read by transformers into plain float32 weights."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from headprune_lib.messages import one_line, quiet


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
    names = _tensors(path)
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


def _tensors(path: Path) -> list[str]:
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
