"""Models and tokenizers by name: a folder, a file of llama.cpp, a Hub name, or a plugin's name."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies

from headprune_lib.cli.app import did_you_mean
from headprune_lib.messages import check_folder, one_line, quiet

if TYPE_CHECKING:  # a plugin registers its names before it is clear that torch is needed
    from torch import nn
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class NamedModel(NamedTuple):
    """Loaders of a model and its tokenizer; both may raise ValueError or FileNotFoundError."""

    load: Callable[[], nn.Module]
    load_tokenizer: Callable[[], PreTrainedTokenizerBase]


NamedModels = Callable[[], Mapping[str, NamedModel]]
_REGISTERED: list[NamedModels] = []


def register_named_models(models: NamedModels) -> NamedModels:
    """Make further model names known to the commands; ``models`` is called at each lookup.

    Modules of the entry-point group ``headprune.commands`` call this when they are imported.
    """
    if models not in _REGISTERED:
        _REGISTERED.append(models)
    return models


def _named_models() -> dict[str, NamedModel]:
    return {name: model for models in _REGISTERED for name, model in models().items()}


def check_model(name: str) -> str:
    """Return the name; FileNotFoundError, without importing torch, if it is a missing path."""
    try:
        if not _elsewhere(name):
            check_folder(name)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}{did_you_mean(name, _named_models())}") from None
    return name


def load_model(name: str, *, device: str = "cpu") -> PreTrainedModel:
    """A model in evaluation mode.

    Args:
        name: a folder of transformers or of :func:`headprune_lib.save_pruned`, a ``.gguf`` file,
            the name of a model on the Hub, or one that :func:`register_named_models` added.
        device: ``cpu``, ``cuda``, ….

    Raises:
        FileNotFoundError: a folder without a model, or a name that cannot be fetched.
        ValueError: a configuration that names no class of transformers, or a device that this
            machine does not have.
    """
    from headprune_lib.saving import load_pruned

    check_device(device)
    if named := _elsewhere(name):
        model: Any = named.load()
    else:
        here_alone = Path(name).is_dir() or not _hub_answers()
        try:
            with quiet():
                model = load_pruned(name, local_files_only=here_alone)
        except OSError as error:
            near = did_you_mean(name, _named_models())
            raise FileNotFoundError(one_line(error) + near) from None
    return model.to(device).eval()


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """A model's tokenizer; FileNotFoundError if it has none, ValueError for damaged files."""
    from transformers import AutoTokenizer

    if named := _elsewhere(name):
        return named.load_tokenizer()
    missing = f"{name} has no tokenizer. Write one into the folder with tokenizer.save_pretrained"
    here_alone = Path(name).is_dir() or not _hub_answers()
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, local_files_only=here_alone)
    except Exception as error:  # tokenizers raise all kinds of errors for broken files
        if any(Path(name).glob("tokenizer*")):
            raise ValueError(
                f"the tokenizer's files in {name} are damaged or incomplete "
                f"({one_line(error)}). Write them again with tokenizer.save_pretrained"
            ) from None
        raise FileNotFoundError(f"{missing} ({one_line(error)})") from None
    files = {"tokenizer.json", *tokenizer.vocab_files_names.values()}
    if Path(name).is_dir() and not any((Path(name) / file).is_file() for file in files):
        raise FileNotFoundError(missing)  # transformers makes up an empty one
    return tokenizer


def check_device(device: str) -> str:
    """Return the device's name; ValueError if this machine does not have it."""
    if device == "cpu":  # always there, and torch takes seconds to import
        return device
    import torch

    try:
        if torch.empty(0, device=device).is_meta:
            raise NotImplementedError("it stores no numbers")
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(
            f"no device {device!r} here ({one_line(error)}). Use --device cpu, which works everywhere"
        ) from None
    return device


def _elsewhere(name: str) -> NamedModel | None:
    """The model of a plugin's name or a ``.gguf`` file; None for a folder or a Hub name."""
    path = Path(name)
    if not path.exists() and (named := _named_models().get(name)):
        return named
    if path.suffix.lower() != ".gguf" or path.is_dir():
        return None
    if not path.is_file():
        raise FileNotFoundError(f"no file {name}")
    gguf = partial(import_module, "headprune_lib.export.gguf")  # imports torch, so only when needed
    return NamedModel(lambda: gguf().read_gguf(path), lambda: gguf().read_gguf_tokenizer(path))


@cache
def _hub_answers() -> bool:
    """Whether the Hub can be reached; if not, its client would retry for 18 seconds."""
    from huggingface_hub.constants import ENDPOINT

    address = urlsplit(ENDPOINT)
    with suppress(OSError):
        if not getproxies():  # behind a proxy, the client finds out by itself
            where = address.hostname or "", address.port or 443
            socket.create_connection(where, timeout=3).close()
        return True
    return False
