"""Hooks that work with torch.compile and checkpointing; recording and restoring of modules."""

from __future__ import annotations

import itertools
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import checkpoint
from torch.utils.hooks import RemovableHandle

from headprune_lib.specs import RELEASED
from headprune_lib.utils import uncompiled

_HOOKED: list[frozenset[nn.Module]] = []
"""Modules that have the library's hooks, one entry for each use."""
_EAGER: list[Any] = []  # the stance of torch.compile, while any hook is on


@contextmanager
def hooking(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Let these modules have hooks inside the block, by bypassing compiled code there.

    Code made by :func:`torch.compile` ignores hooks that are added later, so all of it runs as
    plain Python inside, in every form (``torch.compile(model)``, ``model.compile()``, a function
    around the model). It is used again afterwards.
    """
    use = frozenset(modules)
    _HOOKED.append(use)
    _set_stance()
    try:
        yield
    finally:
        _HOOKED.remove(use)
        _set_stance()


def hooked(modules: Iterable[nn.Module]) -> bool:
    """Whether the library's hooks are on any of these modules right now."""
    return any(module in use for module in modules for use in _HOOKED)


def _set_stance() -> None:
    """Bypass compiled code while any hook is on: ``with`` blocks need not end in order."""
    if _HOOKED and not _EAGER:
        _EAGER.append(torch.compiler.set_stance("force_eager"))
        _EAGER[0].__enter__()
    elif _EAGER and not _HOOKED:
        _EAGER.pop().__exit__(None, None, None)


@contextmanager
def removed_after(*handles: RemovableHandle) -> Iterator[None]:
    """Remove these hooks at the end of the block."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def state_of(modules: Iterable[nn.Module]) -> Callable[[], None]:
    """Return a function that restores these modules' attributes, weights, children and hooks."""
    before = [
        (m, dict(vars(m)), {k: dict(v) for k, v in vars(m).items() if isinstance(v, dict)})
        for m in modules
    ]

    def put_back() -> None:
        for module, attributes, tables in before:
            vars(module).clear()
            vars(module).update(attributes)
            for name, table in tables.items():  # in place: a hook's handle refers to its table
                attributes[name].clear()
                attributes[name].update(table)

    return put_back


Change = Callable[[Tensor], Tensor]
"""A function that changes the first input of a module."""


@contextmanager
def changed_inputs(
    modules: Sequence[nn.Module], changes: Sequence[Change | None]
) -> Iterator[None]:
    """Inside the block, change each module's first input by a function; None leaves it unchanged.

    Activation checkpointing repeats a pass made inside with the same changes, even after the block.
    A copy of a model made inside is free of them after the block.

    Raises:
        RuntimeError: in the backward pass, where a pass that was made outside is repeated inside.
    """
    use = _Use(modules, changes)
    try:
        with use.on():
            yield
    finally:
        use.over = True


class _Use:
    """One use of :func:`changed_inputs`, and which passes it applies to.

    Activation checkpointing runs a layer again in the backward pass, when the hooks may have been
    removed or others added. Whatever is checkpointed inside the block is repeated under its hooks.
    """

    def __init__(self, modules: Sequence[nn.Module], changes: Sequence[Change | None]) -> None:
        self.modules, self.changes = modules, changes
        self.over = False

    @contextmanager
    def on(self) -> Iterator[None]:
        """Put the hooks on inside the block, where anything checkpointed is repeated under them."""
        with hooking(self.modules), ExitStack() as stack:
            for module, change in zip(self.modules, self.changes, strict=True):
                if change is not None:
                    stack.callback(module.register_forward_pre_hook(self.hook(change)).remove)
            _last(self, True)
            stack.callback(_last, self, False)
            yield

    def hook(self, change: Change) -> Callable[[nn.Module, tuple], tuple]:
        """Return a hook that is a plain function, so that a copy of the model shares this use."""

        def changed(_module: nn.Module, inputs: tuple) -> tuple:
            return (change(inputs[0]), *inputs[1:]) if self.applies() else inputs

        return changed

    def applies(self) -> bool:
        """Whether the hooks apply to the current pass.

        Raises:
            RuntimeError: the current pass repeats one that was made outside.
        """
        if self in _REPEATED.get():
            return True
        if self.over:  # a copy of the model that was made inside keeps the hooks
            return False
        if _in_backward() and _in_checkpoint():
            raise RuntimeError(
                "activation checkpointing repeats a pass made outside this masked_heads block, whose mask "
                "would change its gradients. Call backward() outside the block, or make the pass inside"
            )
        return True

    def repeating(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function so that a backward pass repeats it under the hooks."""

        def run(*args: Any, **kwargs: Any) -> Any:
            if not _in_backward() or self in _REPEATED.get():
                return function(*args, **kwargs)
            token = _REPEATED.set((*_REPEATED.get(), self))
            try:
                with self.on() if self.over else nullcontext():
                    return function(*args, **kwargs)
            finally:
                _REPEATED.reset(token)

        return run


_REPEATED: ContextVar[tuple[_Use, ...]] = ContextVar("repeated", default=())
"""Uses whose hooks apply while this thread repeats a checkpointed function."""
_LASTING: list[_Use] = []
# A model's code may import torch.utils.checkpoint.checkpoint under any name, but that function
# looks up its two forms by these names.
_REENTRANT = checkpoint.CheckpointFunction
_NOT_REENTRANT = checkpoint._checkpoint_without_reentrant_generator


class _Reentrant(_REENTRANT):
    @classmethod
    def apply(cls, function: Callable[..., Any], *args: Any) -> Any:
        return _REENTRANT.apply(_under_lasting(function), *args)


def _not_reentrant(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return _NOT_REENTRANT(_under_lasting(function), *args, **kwargs)


def _under_lasting(function: Callable[..., Any]) -> Callable[..., Any]:
    for use in tuple(_LASTING):
        function = use.repeating(function)
    return function


def _last(use: _Use, lasts: bool) -> None:
    """Start or stop wrapping checkpointed functions, which then repeat under this use's hooks."""
    module: Any = checkpoint
    _LASTING.append(use) if lasts else _LASTING.remove(use)
    module.CheckpointFunction = _Reentrant if _LASTING else _REENTRANT
    module._checkpoint_without_reentrant_generator = _not_reentrant if _LASTING else _NOT_REENTRANT


def graph_nodes(tensor: Any) -> Iterator[Any]:
    """Yield the nodes of the autograd graph of a tensor."""
    waiting, visited = [getattr(tensor, "grad_fn", None)], set()
    while waiting:
        if (node := waiting.pop()) is not None and node not in visited:
            visited.add(node)
            waiting += [before for before, _ in node.next_functions]
            yield node


def _in_checkpoint() -> bool:
    """Whether torch's checkpointing called the code that is running."""
    frame: Any = sys._getframe()
    while frame is not None and frame.f_code.co_filename != checkpoint.__file__:
        frame = frame.f_back
    return frame is not None


def _in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1


@dataclass
class ModuleCall:
    """A module's positional inputs and its output when it last ran, and how many ``times`` it ran.

    ``place`` is its position in the order in which the recorded modules finished.
    """

    inputs: tuple = ()
    output: Any = None
    times: int = 0
    place: int = 0


@contextmanager
def record_outputs(modules: Sequence[nn.Module]) -> Iterator[list[ModuleCall]]:
    """Inside the block, record each module's inputs and output in its entry of the list."""
    calls, places = [ModuleCall() for _ in modules], itertools.count(1)

    def keep(call: ModuleCall, _module: nn.Module, inputs: tuple, output: Any) -> None:
        call.inputs, call.output, call.times = inputs, output, call.times + 1
        call.place = next(places)

    pairs = zip(modules, calls, strict=True)
    handles = [module.register_forward_hook(partial(keep, call)) for module, call in pairs]
    with hooking(modules), removed_after(*handles):
        yield calls


@contextmanager
def replace_outputs(modules: Sequence[nn.Module], outputs: Sequence) -> Iterator[None]:
    """Inside the block, let each module return the given output without computing anything.

    No hook of the module runs: a recorded output already has what its hooks did.
    """
    own = [
        {name: vars(module)[name] for name in _CALLED if name in vars(module)} for module in modules
    ]
    with hooking(modules):
        try:
            for module, output in zip(modules, outputs, strict=True):
                without = {name: OrderedDict[int, Any]() for name in _CALLED[1:]}
                vars(module).update(without, forward=partial(_return, output))
            yield
        finally:
            for module, attributes in zip(modules, own, strict=True):
                vars(module).pop("forward", None)
                vars(module).update(attributes)


_CALLED = ("forward", "_forward_hooks", "_forward_pre_hooks")
"""The attributes that calling a module runs; ``forward`` if it is its own, not its class's."""


def _return(output: Any, *_args: Any, **_kwargs: Any) -> Any:
    return output


# --- positions of the last layer that a classifier does not read ----------------------------------

_FAMILIES = ("Bert", "Camembert", "Electra", "Ernie", "MPNet", "Roberta", "XLMRoberta")
"""Model families whose classifiers read only the first position of the last layer."""


@contextmanager
def first_position_alone(
    model: nn.Module, read: Callable[..., Any] | None = None
) -> Iterator[None]:
    """Run the last layer's feed-forward part at the first position only, where no other is read.

    This saves 8 of a layer's 12 matrix products: 1/9 of a pass of 6 layers. It applies to the
    classifiers of a few families with transformers' own code; nothing changes for other models.

    Args:
        read: the function that gets the model's outputs. Since the last hidden state then has one
            position, nothing is skipped where the function is not one of the library's own.
    """
    ours = read is None or (getattr(read, "__module__", None) or "").startswith("headprune_lib.")
    parts = _feed_forward(uncompiled(model)) if ours else []
    if not parts:
        yield
        return
    handles = [part.register_forward_pre_hook(_first_position) for part in parts]
    with hooking(parts), removed_after(*handles):
        yield


def _first_position(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(states[:, :1] for states in inputs)


def _feed_forward(model: Any) -> Sequence[nn.Module]:
    """The last layer's two modules after attention; none where any code is not the known one."""
    name = type(model).__name__.removesuffix("ForSequenceClassification")
    if name not in _FAMILIES or not all(map(_is_released, (model, model.base_model))):
        return []
    base = model.base_model
    # in some families the pooler reads the last layer, in others the classifier itself
    pooler = getattr(base, "pooler", None)
    reader = model.classifier if pooler is None else pooler
    reads = "ClassificationHead" if pooler is None else "Pooler"
    if not (_is_released(base.encoder, f"{name}Encoder") and _is_released(reader, name + reads)):
        return []
    *below, last = base.encoder.layer
    if not _is_released(last, f"{name}Layer"):
        return []
    parts = [last.intermediate, last.output]
    inner = [module for part in (*parts, reader) for module in part.modules()]
    as_known = (
        all(type(module).__module__.startswith(("torch.", "transformers.")) for module in inner)
        and not {*parts} & {module for layer in below for module in layer.children()}
        and not any(map(_hooked, (model, base, base.encoder, last, *inner)))
    )
    return parts if as_known else []


def _is_released(module: nn.Module, name: str = "") -> bool:
    """Whether a module has a class of this name and the ``forward`` that transformers wrote."""
    code = getattr(type(module).forward, "__code__", None)
    released = str(code and code.co_filename).startswith(RELEASED)
    named = not name or type(module).__name__ == name
    return named and released and "forward" not in vars(module)


def _hooked(module: nn.Module) -> bool:
    """Whether a module has hooks, which would see that positions are missing."""
    backward = module._backward_hooks or module._backward_pre_hooks
    return bool(module._forward_hooks or module._forward_pre_hooks or backward)
