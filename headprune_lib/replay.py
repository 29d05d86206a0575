"""Run part of a model again: modules return what they returned before, or something else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from torch import nn


@contextmanager
def recorded(modules: Sequence[nn.Module]) -> Iterator[list]:
    """Inside, what each module returns goes to its place of the list; the last call counts."""
    record: list = [None] * len(modules)

    def keep(i: int):
        def hook(_module, _inputs, output) -> None:
            record[i] = output

        return hook

    with ExitStack() as stack:
        for i, module in enumerate(modules):
            stack.callback(module.register_forward_hook(keep(i)).remove)
        yield record


@contextmanager
def replayed(modules: Sequence[nn.Module], record: Sequence) -> Iterator[None]:
    """Inside, each module returns what was recorded of it, without computing anything."""
    with ExitStack() as stack:
        for module, output in zip(modules, record, strict=True):
            stack.enter_context(forward_replaced(module, lambda *_a, output=output, **_k: output))
        yield


@contextmanager
def forward_replaced(module: nn.Module, forward) -> Iterator[None]:
    """Inside, calling ``module`` calls ``forward`` instead."""
    own = module.__dict__.get("forward")
    module.forward = forward
    try:
        yield
    finally:
        del module.forward
        if own is not None:
            module.forward = own
