"""A model with its tokenizer: a folder, a Hub name, or a name that an extra knows."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import torch
import transformers
from torch import nn
from transformers import AutoConfig, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from headprune_lib.cli.named_models import NamedModel, named_model
from headprune_lib.messages import quiet
from headprune_lib.saving import load_pruned


def load_model(name: str, *, device: str = "cpu") -> PreTrainedModel:
    """A model in evaluation mode.

    Args:
        name: a folder of transformers or of :func:`headprune_lib.save_pruned`, the name of a model
            on the Hub, or a name that :func:`headprune_lib.cli.named_models.named_model` knows.

    Raises:
        FileNotFoundError: a folder without a model, or a name that cannot be fetched.
        ValueError: a configuration that names no class of transformers, or a device that is not
            there.
    """
    _check_device(device)
    if (named := _named(name)) is not None:
        return _placed(named.load(), device)
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
        raise FileNotFoundError(f"no folder {name}")
    try:
        config = AutoConfig.from_pretrained(name)
    except OSError as error:
        raise FileNotFoundError(
            f"{name} is no folder here, and the Hub does not give it ({_first_line(error)}); "
            "give a folder that save_pretrained wrote"
        ) from None
    classes = config.architectures or []
    model_class = getattr(transformers, classes[0], None) if classes else None
    if not (isinstance(model_class, type) and issubclass(model_class, PreTrainedModel)):
        raise ValueError(
            f"the configuration of {name} names {classes or 'no class'}, which "
            f"transformers {transformers.__version__} does not have: save the model "
            "with save_pretrained"
        )
    try:
        with quiet():
            return _placed(model_class.from_pretrained(name), device)
    except OSError as error:
        raise FileNotFoundError(f"{name}: {_first_line(error)}") from None


def load_own_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer beside a model.

    Raises:
        FileNotFoundError: there is none.
    """
    if (named := _named(name)) is not None:
        return named.load_tokenizer()
    missing = f"no tokenizer beside {name}: write it into the folder with tokenizer.save_pretrained"
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise FileNotFoundError(f"{missing} ({_first_line(error)})") from None
    files = {"tokenizer.json", *tokenizer.vocab_files_names.values()}
    if Path(name).is_dir() and not any((Path(name) / file).is_file() for file in files):
        raise FileNotFoundError(missing)  # transformers makes up an empty one
    return tokenizer


def _placed(model: nn.Module, device: str) -> PreTrainedModel:
    return cast(PreTrainedModel, model.to(device).eval())


def _named(name: str) -> NamedModel | None:
    """A folder of a name goes before what an extra knows by it."""
    return None if Path(name).exists() else named_model(name)


def _check_device(device: str) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(
            f"no device {device!r} here ({_first_line(error)}); --device cpu works everywhere"
        ) from None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
