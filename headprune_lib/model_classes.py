"""Classes of models by the names that a folder keeps, and back."""

from __future__ import annotations

from typing import Any

import transformers
from torch import nn

from headprune_lib.fairseq_import.prenorm import PreNormTranslator


def class_named(name: str) -> Any:
    """A class of transformers, or the one for translators that transformers has no class for."""
    own = {one.__name__: one for one in (PreNormTranslator,)}
    return own.get(name) or getattr(transformers, name, None)


def name_of(model: nn.Module) -> str:
    """The name that :func:`class_named` finds again; with its module that of a class elsewhere."""
    own = type(model)
    known = class_named(own.__name__) is own
    return own.__name__ if known else f"{own.__module__}.{own.__qualname__}"
