"""Modules of a model run again by themselves, with what they were given in a pass of the model."""

from __future__ import annotations

import copy
from collections import UserDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, EncoderDecoderCache

from headprune_lib.batching import Batch
from headprune_lib.blocks import AttentionBlock
from headprune_lib.example_inputs import example_inputs
from headprune_lib.messages import one_line
from headprune_lib.running import evaluating, on_device
from headprune_lib.slicing import OUTSIDE
from headprune_lib.structure import NotAttention


@dataclass
class Ran:
    """What a module was given in one pass of the model."""

    args: tuple
    kwargs: dict[str, Any]
    examples: int

    def keys_from_outside(self) -> bool:
        """Whether it was given something else than its own states to make keys of."""
        own = next(
            (one for one in (*self.args, *self.kwargs.values()) if torch.is_tensor(one)), None
        )
        for name in OUTSIDE:
            given = self.kwargs.get(name)
            if torch.is_tensor(given) and own is not None:
                return given.shape != own.shape or not torch.equal(given, own)
        return False

    def by_head(self) -> tuple[str, ...]:
        """Names of arguments that may hold something a head: (example, head, query, key).

        Of two modules that are alike one may be given a mask for all heads, and the other a bias a
        head, which removal has to slice.
        """
        each = {**{str(place): one for place, one in enumerate(self.args)}, **self.kwargs}
        return tuple(
            name
            for name, one in sorted(each.items())
            if torch.is_tensor(one) and one.ndim == 4 and one.shape[1] > 1
        )


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
    if isinstance(given, UserDict):  # keys and values that layers hand on to each other
        return type(given)(copied(given.data))
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


def reached(
    model: nn.Module, paths: list[str], inputs: Batch | None
) -> tuple[dict[str, Ran], str, list[tuple[str, Batch]]]:
    """What each module is given where the model, or the part of it that holds it, is run.

    Returns:
        what modules were given, by path; what went wrong; and the path of each part that was run
        with its inputs, where these reached a module.
    """
    ran: dict[str, Ran] = {}
    passes: list[tuple[str, Batch]] = []
    problem = ""
    for root_path in _roots(model, paths):
        root = model.get_submodule(root_path)
        prefix = f"{root_path}." if root_path else ""
        wanted = [path for path in paths if path not in ran and path.startswith(prefix)]
        if not wanted:
            continue
        tried = [inputs] if inputs is not None and not root_path else example_inputs(root)
        with as_it_was(root):
            for made in tried:
                first = next(root.parameters(), None)
                placed = on_device(made, "cpu" if first is None else first.device)
                below = [path.removeprefix(prefix) for path in wanted if path not in ran]
                if not below:
                    break
                found, error = record(root, below, placed)
                # of a pass that ended in an error too: the modules that ran were given real inputs
                ran |= {prefix + path: one for path, one in found.items()}
                passes += [(root_path, placed)] if found else []
                problem = problem or error
    return ran, problem, passes


def keys_read(
    model: nn.Module, blocks: Sequence[AttentionBlock], others: Sequence[str], inputs: Batch
) -> dict[str, set[str]]:
    """Which modules use the keys and values that attention makes for itself: maker -> readers.

    Autograd tells, in one pass: what makes keys and values begins a graph, and every output
    projection ends it, so that another module is on a graph only if it was handed keys or values,
    whatever by (an argument, a dict of the model's, a cache). Hidden states that depend on them
    otherwise are cut off before the next attention. Nothing is computed backward.

    Args:
        blocks: attention that is known; paths are below ``model``.
        others: paths of modules that are not known and may read, too.

    Returns:
        paths; ``""`` is a reader that is none of these modules.
    """
    made: dict[Tensor, str] = {}
    readers: dict[str, set[str]] = {}

    def begin(path: str, _module: nn.Module, _inputs: tuple, output: Tensor) -> Tensor:
        start = output.detach().requires_grad_()
        made[start] = path
        return start.clone()  # code may write to it in place

    def end(path: str, _module: nn.Module, inputs: tuple) -> tuple:
        read(path, inputs[0])
        return (inputs[0].detach(), *inputs[1:])

    def cut_off(_module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict]:
        if args and isinstance(args[0], Tensor):
            return (args[0].detach(), *args[1:]), kwargs
        states = next((name for name, one in kwargs.items() if isinstance(one, Tensor)), None)
        return args, kwargs if states is None else kwargs | {states: kwargs[states].detach()}

    def read(path: str, tensor: Any) -> None:
        for maker in {made[start] for start in _starts(tensor) if start in made} - {path}:
            readers.setdefault(maker, set()).add(path)

    def first(output: Any) -> Any:
        output = list(output.values()) if isinstance(output, dict) else output
        return first(output[0]) if isinstance(output, tuple | list) and output else output

    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    with ExitStack() as stack, torch.inference_mode(False), torch.enable_grad():
        for parameter in learned:  # graphs are of keys and values alone
            parameter.requires_grad_(False)
            stack.callback(parameter.requires_grad_)
        for block in blocks:
            for part in {"fused", "key", "value"}.intersection(block.architecture.projections):
                making = block.part(model, part)
                stack.callback(making.register_forward_hook(partial(begin, block.path)).remove)
            output = block.part(model, "output")
            stack.callback(output.register_forward_pre_hook(partial(end, block.path)).remove)
            module = model.get_submodule(block.path)
            stack.callback(module.register_forward_pre_hook(cut_off, with_kwargs=True).remove)
        for path in ["", *others]:
            hook = model.get_submodule(path).register_forward_hook(
                lambda _module, _inputs, output, path=path: read(path, first(output))
            )
            stack.callback(hook.remove)
        with suppress(Exception):  # inputs that the model does not run on to its end, as in record
            model(**copied(inputs))
    return readers


def _starts(tensor: Any) -> Iterator[Tensor]:
    """The leaves of the graph that a tensor was made on."""
    todo = [getattr(tensor, "grad_fn", None)]
    seen = set()
    while todo:
        if (node := todo.pop()) is None or node in seen:
            continue
        seen.add(node)
        todo += [before for before, _ in node.next_functions]
        if (leaf := getattr(node, "variable", None)) is not None:
            yield leaf


def _roots(model: nn.Module, paths: list[str]) -> list[str]:
    """The model, then the models inside it that hold attention and can be run by themselves."""
    inner = [
        path
        for path, module in model.named_modules()
        if path
        and hasattr(module, "config")
        and hasattr(module, "main_input_name")
        and any(one.startswith(f"{path}.") for one in paths)
    ]
    return ["", *sorted(inner, key=lambda path: path.count("."))]


@contextmanager
def as_it_was(model: nn.Module) -> Iterator[None]:
    """Inside, the model is evaluated; afterwards modes, buffers and random state are as before.

    Raises:
        ValueError: the model exchanged modules of its own, which are put back.
    """
    buffers = [
        (m, n, b, b.clone())
        for m in model.modules()
        for n, b in m._buffers.items()
        if b is not None and not b.is_meta
    ]
    parts = [(module, dict(module._modules), _plain(module)) for module in model.modules()]
    with evaluating(model), torch.random.fork_rng():
        try:
            yield
        finally:
            exchanged = _put_back(parts)
            for module, name, buffer, value in buffers:
                if module._buffers.get(name) is not buffer:
                    module._buffers[name] = buffer
                if buffer.shape == value.shape:
                    buffer.copy_(value)
    if exchanged:
        raise ValueError(
            f"{type(model).__name__} exchanges modules of its own while it runs ({exchanged}): heads "
            "that are found in the one are not those of the other. Load it so that it keeps one kind "
            '(BigBird: attention_type="original_full")'
        )


def _plain(module: nn.Module) -> dict[str, Any]:
    return {k: v for k, v in vars(module).items() if v is None or isinstance(v, int | float | str)}


def _put_back(parts: list[tuple[nn.Module, dict[str, Any], dict[str, Any]]]) -> str:
    """Give modules the parts and plain attributes that they had; what was exchanged, if anything."""
    exchanged = ""
    for module, children, plain in parts:
        for name, child in children.items():
            if (now := module._modules.get(name)) is not child:
                exchanged = exchanged or f"{type(child).__name__} for {type(now).__name__}"
                module._modules[name] = child
        for name, value in plain.items():
            if vars(module).get(name) is not value:
                vars(module)[name] = value
    return exchanged


def said(error: BaseException) -> str:
    """What an error says; its type too, where it is none of ours."""
    text = one_line(error)
    return text if isinstance(error, NotAttention) else f"{type(error).__name__}: {text}"[:160]


def tolerance(like: Tensor) -> float:
    """What rounding may move numbers like these by."""
    return 4 * torch.finfo(like.dtype).eps * float(like.abs().max())


def close(found: Tensor, expected: Tensor, scale: Tensor) -> bool:
    """Whether two runs agree up to the rounding of sums of numbers like ``scale``."""
    if not scale.is_floating_point():  # places of tokens that an indexer chose, or a mask
        return torch.equal(found, expected)
    limit = 64 * torch.finfo(scale.dtype).eps * float(scale.abs().nan_to_num().max())
    limit = max(limit, 64 * torch.finfo(torch.float32).eps * float(scale.abs().nan_to_num().max()))
    both = found.isnan() & expected.isnan()
    return bool(((found - expected).abs().masked_fill(both, 0) <= limit + 1e-12).all())
