"""Models in files of llama.cpp (``.gguf``), read by transformers into plain float32 weights."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

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
            read = AutoModelForCausalLM.from_pretrained(
                path.parent, gguf_file=path.name, dtype=torch.float32
            )
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


def read_gguf_tokenizer(path: Path) -> PreTrainedTokenizerBase:
    """The tokenizer in the file.

    Raises:
        ValueError: as of :func:`read_gguf`; or the file holds none that transformers reads.
    """
    _check_reader(path)
    try:
        with quiet():
            return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    except Exception as error:  # whatever the reader makes of bytes that cannot be
        raise ValueError(
            f"{path}: transformers finds no tokenizer in it that it reads ({one_line(error)})"
        ) from None


def _check_reader(path: Path) -> None:
    if find_spec("gguf") is None:
        raise ValueError(f"{path} is read by gguf, not installed: pip install 'headprune[gguf]'")
