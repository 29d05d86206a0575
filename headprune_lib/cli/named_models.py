"""Names of models that other packages know, beside folders and the Hub."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # the command reads this file before it is clear that torch is needed
    from torch import nn
    from transformers import PreTrainedTokenizerBase


class NamedModel(NamedTuple):
    """How a model and its tokenizer are had; either may raise ValueError or FileNotFoundError."""

    load: Callable[[], nn.Module]
    load_tokenizer: Callable[[], PreTrainedTokenizerBase]


Resolve = Callable[[str], NamedModel | None]
_RESOLVERS: list[Resolve] = []


def register_named_models(resolve: Resolve) -> Resolve:
    """Let the commands take the names for which ``resolve`` gives a model, None for all others.

    A module of the entry-point group ``headprune.commands`` calls it when it is imported.
    """
    if resolve not in _RESOLVERS:
        _RESOLVERS.append(resolve)
    return resolve


def named_model(name: str) -> NamedModel | None:
    """The first model that goes by a name."""
    return next((found for resolve in _RESOLVERS if (found := resolve(name)) is not None), None)
