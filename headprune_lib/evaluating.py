"""A model in evaluation mode while a ``with`` block lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(model: nn.Module, *, frozen: bool = False) -> Iterator[None]:
    """Inside, every module of the model is in evaluation mode; afterwards each is as it was.

    Never yield to a caller from inside: a generator that stops there, for good where its caller
    stops asking, would leave the model changed. Enter it once a batch instead; that is cheap.

    Args:
        frozen: also let no parameter ask for a gradient, where only activations need one.
    """
    modes = [(module, module.training) for module in model.modules()]
    wanted = [p for p in model.parameters() if p.requires_grad] if frozen else []
    model.eval()
    for parameter in wanted:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
        for parameter in wanted:
            parameter.requires_grad_(True)
