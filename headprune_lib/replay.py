"""Run part of a model again: modules return what they returned before, or something else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import nn


@dataclass
class Call:
    """What a module was given by position, and returned, when it last ran; ``times`` it did."""

    inputs: tuple = ()
    output: Any = None
    times: int = 0


@contextmanager
def recorded(modules: Sequence[nn.Module]) -> Iterator[list[Call]]:
    """Inside, what each module is given and returns is noted in its place of the list."""
    calls = [Call() for _ in modules]

    def keep(call: Call):
        def hook(_module: nn.Module, inputs: tuple, output: Any) -> None:
            call.inputs, call.output, call.times = inputs, output, call.times + 1

        return hook

    with ExitStack() as stack:
        for module, call in zip(modules, calls, strict=True):
            stack.callback(module.register_forward_hook(keep(call)).remove)
        yield calls


@contextmanager
def replayed(modules: Sequence[nn.Module], outputs: Sequence) -> Iterator[None]:
    """Inside, each module returns its output of these, without computing anything."""
    with ExitStack() as stack:
        for module, output in zip(modules, outputs, strict=True):
            stack.enter_context(_returning(module, output))
        yield


@contextmanager
def _returning(module: nn.Module, output: Any) -> Iterator[None]:
    own = module.__dict__.get("forward")  # a faster kernel, or that of a layer without heads
    module.forward = lambda *_args, **_kwargs: output
    try:
        yield
    finally:
        del module.forward
        if own is not None:
            module.forward = own
