"""A model with its tokenizer: a folder, a file of llama.cpp, a Hub name, or one an extra knows."""

from __future__ import annotations

import socket
from functools import cache
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from torch import nn
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from headprune_lib.cli.named_models import NamedModel, named_model
from headprune_lib.export.gguf import read_gguf, read_gguf_tokenizer
from headprune_lib.messages import one_line, quiet
from headprune_lib.saving import load_pruned


def load_model(name: str, *, device: str = "cpu") -> PreTrainedModel:
    """A model in evaluation mode.

    Args:
        name: a folder of transformers or of :func:`headprune_lib.save_pruned`, a ``.gguf`` file,
            the name of a model on the Hub, or a name that
            :func:`headprune_lib.cli.named_models.named_model` knows.

    Raises:
        FileNotFoundError: a folder without a model, or a name that cannot be fetched.
        ValueError: a configuration that names no class of transformers, or a device that is not
            there.
    """
    check_device(device)
    if (named := _named(name)) is not None:
        return _placed(named.load(), device)
    if (file := _gguf_file(name)) is not None:
        return _placed(read_gguf(file), device)
    try:
        with quiet():
            return load_pruned(name, device=device, local_files_only=_on_disk_only(name))
    except OSError as error:
        raise FileNotFoundError(one_line(error)) from None


def _on_disk_only(name: str) -> bool:
    """Whether a model is to be looked for here alone: in a folder, or in the cache of the Hub."""
    return Path(name).is_dir() or not _hub_in_reach()


@cache
def _hub_in_reach() -> bool:
    """Whether the Hub answers: where it does not, its client tries again for 18 seconds.

    Behind a proxy the client finds out by itself.
    """
    from huggingface_hub.constants import ENDPOINT

    if getproxies():
        return True
    address = urlsplit(ENDPOINT)
    try:
        socket.create_connection((address.hostname or "", address.port or 443), timeout=3).close()
    except OSError:
        return False
    return True


def load_own_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer beside a model.

    Raises:
        FileNotFoundError: there is none.
        ValueError: its files are damaged.
    """
    if (named := _named(name)) is not None:
        return named.load_tokenizer()
    if (file := _gguf_file(name)) is not None:
        return read_gguf_tokenizer(file)
    missing = f"no tokenizer beside {name}: write it into the folder with tokenizer.save_pretrained"
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, local_files_only=_on_disk_only(name))
    except Exception as error:  # whatever a class makes of files that cannot be
        if any(Path(name).glob("tokenizer*")):
            raise ValueError(
                f"the tokenizer's files in {name} are damaged or incomplete "
                f"({one_line(error)}); write them again with tokenizer.save_pretrained"
            ) from None
        raise FileNotFoundError(f"{missing} ({one_line(error)})") from None
    files = {"tokenizer.json", *tokenizer.vocab_files_names.values()}
    if Path(name).is_dir() and not any((Path(name) / file).is_file() for file in files):
        raise FileNotFoundError(missing)  # transformers makes up an empty one
    return tokenizer


def _gguf_file(name: str) -> Path | None:
    """The file of llama.cpp that a name stands for; FileNotFoundError where it is not there."""
    path = Path(name)
    if path.suffix.lower() != ".gguf" or path.is_dir():
        return None
    if not path.is_file():
        raise FileNotFoundError(f"no file {name}")
    return path


def _placed(model: nn.Module, device: str) -> PreTrainedModel:
    return cast(PreTrainedModel, model.to(device).eval())


def _named(name: str) -> NamedModel | None:
    """A folder of a name goes before what an extra knows by it."""
    return None if Path(name).exists() else named_model(name)


def check_device(device: str) -> None:
    """Raises ValueError for a device that is not there."""
    try:
        if torch.empty(0, device=device).is_meta:
            raise NotImplementedError("it holds no numbers")
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(
            f"no device {device!r} here ({one_line(error)}); --device cpu works everywhere"
        ) from None
