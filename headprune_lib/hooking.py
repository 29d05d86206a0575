"""What must hold while the library's hooks are on a model: each of them runs, and for one user."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(eq=False, frozen=True)
class _Hold:
    """What one ``with`` block keeps to its thread: modules with all that is in them."""

    thread: int
    modules: frozenset[nn.Module]
    hooked: frozenset[nn.Module]


_HOLDS: list[_Hold] = []
_LOCK = threading.RLock()
_EAGER = ExitStack()  # the stance of torch.compile, while any hook is on


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
    with _holding(held, frozenset(held)):
        yield


@contextmanager
def claimed(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Inside, no other thread may change these modules, or what is in them, by this library.

    May be nested.

    Raises:
        RuntimeError: another thread does.
    """
    with _holding(modules, frozenset()):
        yield


def hooked(modules: Iterable[nn.Module]) -> bool:
    """Whether the library's hooks are on any of these modules right now."""
    with _LOCK:
        return any(module in hold.hooked for module in modules for hold in _HOLDS)


@contextmanager
def _holding(modules: Iterable[nn.Module], hooked: frozenset[nn.Module]) -> Iterator[None]:
    inside = frozenset(inner for module in modules for inner in module.modules())
    hold = _Hold(threading.get_ident(), inside, hooked)
    with _LOCK:
        for other in _HOLDS:
            if other.thread != hold.thread and (shared := other.modules & inside):
                raise RuntimeError(
                    "another thread masks or measures this model "
                    f"({type(next(iter(shared))).__name__}) right now: masks are part of a model "
                    "while they last, so the threads would disturb each other. Give each thread a "
                    "copy.deepcopy of the model, or take turns with a lock"
                )
        _HOLDS.append(hold)
        _set_stance()
    try:
        yield
    finally:
        with _LOCK:
            _HOLDS.remove(hold)
            _set_stance()


def _set_stance() -> None:
    """Compiled code is passed over while any hook is on: blocks need not end in order."""
    global _eager  # noqa: PLW0603
    wanted = any(hold.hooked for hold in _HOLDS)
    if wanted and not _eager:
        _EAGER.enter_context(torch.compiler.set_stance("force_eager"))
    elif _eager and not wanted:
        _EAGER.close()
    _eager = wanted


_eager = False
