"""Read fairseq's checkpoints, which are pickles, without running anything that is in them."""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

# What a checkpoint needs besides tensors and plain containers.
_ALLOWED: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [argparse.Namespace]


def read_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The model's arguments and its weights.

    Old checkpoints keep the arguments in ``args``, new ones in ``cfg["model"]``.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no checkpoint of fairseq, or one that holds objects other than tensors, plain
            containers and argparse's namespace. Nothing in the file has been run.
    """
    found = _loaded(path)
    arguments = found.get("args")
    if arguments is None:
        arguments = (found.get("cfg") or {}).get("model")
    if arguments is None:
        raise ValueError(f"{path} holds neither 'args' nor 'cfg' with the model's arguments")
    return dict(arguments if isinstance(arguments, dict) else vars(arguments)), found["model"]


def read_updates(path: Path) -> int:
    """After how many updates a checkpoint was written.

    Raises:
        FileNotFoundError, ValueError: as of :func:`read_checkpoint`, or nothing is said of it.
    """
    history = _loaded(path).get("optimizer_history")
    if not history:
        raise ValueError(f"{path} does not say after how many updates it was written")
    return int(history[-1]["num_updates"])


def _loaded(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"no checkpoint {path}")
    try:
        with torch.serialization.safe_globals(_ALLOWED):
            found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"{path} is not read: it holds more than weights and arguments ({reason}). Such a "
            "file can run code when it is opened; nothing in it has been run"
        ) from None
    except (RuntimeError, EOFError) as error:
        raise ValueError(f"{path} is damaged or no checkpoint: {error}") from None
    if not isinstance(found, dict) or "model" not in found:
        raise ValueError(f"{path} is no fairseq checkpoint: it holds no 'model'")
    return found
