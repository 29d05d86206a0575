"""A model with its tokenizer: a folder, a file of llama.cpp, a Hub name, or one an extra knows."""

from __future__ import annotations

import socket
from functools import cache
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
import transformers
from torch import nn
from transformers import AutoConfig, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from headprune_lib.cli.named_models import NamedModel, named_model
from headprune_lib.gguf_reading import read_gguf, read_gguf_tokenizer
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
    folder = Path(name)
    if folder.is_dir():
        if (folder / "headprune.json").is_file():
            return _placed(load_pruned(folder), device)
        if not (folder / "config.json").is_file():
            raise FileNotFoundError(
                f"{folder} has no config.json: give a folder that "
                "save_pretrained or save_pruned wrote"
            )
    elif name.startswith((".", "/", "~")) or name.count("/") > 1:  # no name on the Hub
        raise FileNotFoundError(f"no folder {name}, nor a .gguf file")
    model_class = _class_of(name)
    try:
        with quiet():
            model, found = model_class.from_pretrained(
                name,
                local_files_only=_on_disk_only(name),
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # refused below, by name
            )
    except OSError as error:
        raise FileNotFoundError(f"{name}: {one_line(error)}") from None
    except Exception as error:  # whatever a class makes of a configuration that cannot be
        raise ValueError(
            f"{name}: the weights are damaged or do not fit config.json ({one_line(error)})"
        ) from None
    if unfit := sorted(found["mismatched_keys"]):
        tensor, stored, wanted = unfit[0]
        raise ValueError(
            f"{name}: {len(unfit)} tensors of the weights do not fit config.json, such as {tensor}: "
            f"{tuple(stored)}, and {model_class.__name__} has {tuple(wanted)} there"
        )
    if lacking := sorted(found["missing_keys"]):  # which transformers makes up at random
        raise ValueError(
            f"{name}: the weights lack {len(lacking)} tensors that {model_class.__name__} has, "
            f"such as {lacking[0]}: save the whole model with save_pretrained"
        )
    return _placed(model, device)


def _class_of(name: str) -> type[PreTrainedModel]:
    """The class of transformers that the configuration of a model names."""
    here = Path(name).is_dir()
    try:
        config = AutoConfig.from_pretrained(name, local_files_only=_on_disk_only(name))
    except Exception as error:  # whatever a class makes of a configuration that cannot be
        if here:
            raise ValueError(f"{Path(name) / 'config.json'}: {one_line(error)}") from None
        raise FileNotFoundError(
            f"{name} is no folder here, and the Hub does not give it ({one_line(error)}); "
            "give a folder that save_pretrained wrote"
        ) from None
    classes = config.architectures or []
    first = classes[0] if isinstance(classes, list) and classes else None
    model_class = getattr(transformers, first, None) if isinstance(first, str) else None
    if not (isinstance(model_class, type) and issubclass(model_class, PreTrainedModel)):
        raise ValueError(
            f"the configuration of {name} names {classes or 'no class'}, which "
            f"transformers {transformers.__version__} does not have: save the model "
            "with save_pretrained"
        )
    return model_class


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
