"""A module of a model run again by itself, with what it was given in a pass of the model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, EncoderDecoderCache

from headprune_lib.blocks import AttentionBlock
from headprune_lib.messages import one_line
from headprune_lib.structure import NotAttention


@dataclass
class Ran:
    """What a module was given in one pass of the model."""

    args: tuple
    kwargs: dict[str, Any]
    examples: int


def output_of(module: nn.Module, ran: Ran) -> Tensor:
    """The tensor that the module returns, or the first that it does."""
    return outputs_of(module, ran)[0]


def outputs_of(module: nn.Module, ran: Ran) -> list[Tensor]:
    """The tensors that the module returns."""
    # a module may write to a cache, or to what it is given
    args, kwargs = copied((ran.args, ran.kwargs))
    with torch.no_grad():
        output = module(*args, **kwargs)
    while isinstance(output, tuple | list) and output and isinstance(output[0], tuple | list):
        output = output[0]
    each = output if isinstance(output, tuple | list) else [output]
    if not each or not isinstance(each[0], Tensor):
        raise NotAttention(f"it returns a {type(output).__name__}, not a tensor")
    return [one for one in each if isinstance(one, Tensor)]


def copied(given: Any) -> Any:
    """Arguments of a module, its tensors and caches copied, so that nothing shared is written to."""
    if isinstance(given, Tensor):
        return given.detach().clone()
    if isinstance(given, Cache | EncoderDecoderCache):
        return copy.deepcopy(given)
    if isinstance(given, tuple) and type(given) is tuple:
        return tuple(copied(one) for one in given)
    if type(given) is list:
        return [copied(one) for one in given]
    if type(given) is dict:
        return {name: copied(one) for name, one in given.items()}
    return given


@contextmanager
def contexts_of(module: nn.Module, block: AttentionBlock) -> Iterator[list[Tensor]]:
    """Inside, a list to which every run adds what the output projection is given."""
    contexts: list[Tensor] = []

    def keep(_module: nn.Module, inputs: tuple) -> None:
        contexts.append(inputs[0].detach().clone())

    handle = block.part(module, "output").register_forward_pre_hook(keep)
    try:
        yield contexts
    finally:
        handle.remove()


@contextmanager
def core_outputs(core: nn.Module) -> Iterator[list[Any]]:
    """Inside, a list to which every run adds what the core returns."""
    made: list[Any] = []
    handle = core.register_forward_hook(lambda _module, _inputs, output: made.append(output))
    try:
        yield made
    finally:
        handle.remove()


@contextmanager
def zeroed(module: nn.Module, block: AttentionBlock, heads: Sequence[int]) -> Iterator[None]:
    """Inside, the output projection is given nothing of these heads."""

    def zero(_module: nn.Module, inputs: tuple) -> tuple:
        context = inputs[0].clone()
        context.unflatten(-1, (block.n_heads, block.width))[..., list(heads), :] = 0
        return (context, *inputs[1:])

    handle = block.part(module, "output").register_forward_pre_hook(zero)
    try:
        yield
    finally:
        handle.remove()


def record(
    model: nn.Module, paths: Sequence[str], inputs: dict[str, Any]
) -> tuple[dict[str, Ran], str]:
    """What the modules of these paths are given in a pass of the model; and what went wrong."""
    found: dict[str, Ran] = {}
    examples = next((len(one) for one in inputs.values() if isinstance(one, Tensor)), 0)

    def keep(path: str) -> Callable[[nn.Module, tuple, dict], None]:
        def hook(_module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
            if path not in found:
                found[path] = Ran(copied(args), copied(kwargs), examples)

        return hook

    with ExitStack() as stack:
        for path in paths:
            hook = model.get_submodule(path).register_forward_pre_hook(keep(path), with_kwargs=True)
            stack.callback(hook.remove)
        try:
            with torch.no_grad():
                model(**inputs)
        except Exception as error:  # these inputs are not the model's
            return found, said(error)
    return found, ""


def said(error: BaseException) -> str:
    """What an error says; its type too, where it is none of ours."""
    text = one_line(error)
    return text if isinstance(error, NotAttention) else f"{type(error).__name__}: {text}"[:160]
