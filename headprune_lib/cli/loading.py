"""A model with its tokenizer: a folder, a Hub name, or a fine-tuned model of this project."""

from __future__ import annotations

from pathlib import Path

import transformers
from torch import nn
from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase

from headprune_lib.replication.data import TASKS
from headprune_lib.replication.encoder.pretrained import load_tokenizer
from headprune_lib.replication.encoder.weights import finetuned
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.weights import quiet
from headprune_lib.saving import load_pruned


def load_model(name: str, *, device: str = "cpu") -> nn.Module:
    """A model in evaluation mode.

    Args:
        name: a folder of transformers or of :func:`headprune_lib.save_pruned`, the name of a model
            on the Hub, or a task of this project (``"reviews"``: its committed fine-tuning).

    Raises:
        FileNotFoundError: a folder without a model, or a name that cannot be fetched.
        ValueError: a configuration that names no class of transformers.
    """
    if _is_task(name):
        return finetuned(load_profile(task=name)).to(device)
    folder = Path(name)
    if folder.is_dir():
        if (folder / "headprune.json").is_file():
            return load_pruned(folder, device=device)
        if not (folder / "config.json").is_file():
            raise FileNotFoundError(f"{folder} has no config.json: give a folder that "
                                    "save_pretrained or save_pruned wrote")
    elif name.startswith((".", "/", "~")) or name.count("/") > 1:  # no name on the Hub
        raise FileNotFoundError(f"no folder {name}")
    try:
        config = AutoConfig.from_pretrained(name)
    except OSError as error:
        raise FileNotFoundError(
            f"{name} is no folder here, and the Hub does not give it ({_first_line(error)}); "
            "give a folder that save_pretrained wrote") from None
    classes = config.architectures or []
    model_class = getattr(transformers, classes[0], None) if classes else None
    if model_class is None:
        raise ValueError(f"the configuration of {name} names {classes or 'no class'}, which "
                         f"transformers {transformers.__version__} does not have: save the model "
                         "with save_pretrained")
    try:
        with quiet():
            return model_class.from_pretrained(name).to(device).eval()
    except OSError as error:
        raise FileNotFoundError(f"{name}: {_first_line(error)}") from None


def load_own_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer beside a model.

    Raises:
        FileNotFoundError: there is none.
    """
    if _is_task(name):
        return load_tokenizer(load_profile(task=name).model)
    missing = (f"no tokenizer beside {name}: write it into the folder with "
               "tokenizer.save_pretrained")
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise FileNotFoundError(f"{missing} ({_first_line(error)})") from None
    files = {"tokenizer.json", *tokenizer.vocab_files_names.values()}
    if Path(name).is_dir() and not any((Path(name) / file).is_file() for file in files):
        raise FileNotFoundError(missing)  # transformers makes up an empty one
    return tokenizer


def _is_task(name: str) -> bool:
    """Whether this is a task of the project; a folder of that name goes first."""
    return name in TASKS and not Path(name).exists()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
