"""What must hold while the library's hooks are on a model: each of them runs, and for one user."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from weakref import WeakKeyDictionary

import torch
from torch import nn

_LOCK = threading.RLock()
_HOLDERS: WeakKeyDictionary[nn.Module, tuple[int, int]] = WeakKeyDictionary()  # thread, times
_HOOKED: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()  # times
_EAGER = ExitStack()  # the stance of torch.compile, while anyone needs it
_n_eager = 0


@contextmanager
def hooking(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Inside, hooks on these modules act: compiled code is passed over, other threads are refused.

    What :func:`torch.compile` made does not look for hooks that were added since, so all of it runs
    as plain Python here, in every form (``torch.compile(model)``, ``model.compile()``, a function
    around the model). It is used again afterwards.

    Raises:
        RuntimeError: another thread masks or measures a model that holds one of these modules; the
            two would see each other's hooks.
    """
    held = list(modules)
    with claimed(held), _uncompiled(), _counted(held):
        yield


def hooked(modules: Iterable[nn.Module]) -> bool:
    """Whether the library's hooks are on any of these modules right now."""
    with _LOCK:
        return any(module in _HOOKED for module in modules)


@contextmanager
def _counted(modules: list[nn.Module]) -> Iterator[None]:
    with _LOCK:
        for module in modules:
            _HOOKED[module] = _HOOKED.get(module, 0) + 1
    try:
        yield
    finally:
        with _LOCK:
            for module in modules:
                _HOOKED[module] -= 1
                if not _HOOKED[module]:
                    del _HOOKED[module]


@contextmanager
def claimed(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Inside, no other thread may change these modules, or what is in them, by this library.

    May be nested.

    Raises:
        RuntimeError: another thread does.
    """
    own, taken = threading.get_ident(), {inner for module in modules for inner in module.modules()}
    with _LOCK:
        other = next((m for m in taken if _HOLDERS.get(m, (own, 0))[0] != own), None)
        if other is not None:
            raise RuntimeError(
                f"another thread masks or measures this model ({type(other).__name__}) right now: "
                "masks are part of a model while they last, so the threads would disturb each "
                "other. Give each thread a copy.deepcopy of the model, or take turns with a lock"
            )
        for module in taken:
            _HOLDERS[module] = own, _HOLDERS.get(module, (own, 0))[1] + 1
    try:
        yield
    finally:
        with _LOCK:
            for module in taken:
                times = _HOLDERS[module][1] - 1
                if times:
                    _HOLDERS[module] = own, times
                else:
                    del _HOLDERS[module]


@contextmanager
def _uncompiled() -> Iterator[None]:
    # counted: contexts of two models need not end in the order in which they began
    global _n_eager  # noqa: PLW0603
    with _LOCK:
        if not _n_eager:
            _EAGER.enter_context(torch.compiler.set_stance("force_eager"))
        _n_eager += 1
    try:
        yield
    finally:
        with _LOCK:
            _n_eager -= 1
            if not _n_eager:
                _EAGER.close()
