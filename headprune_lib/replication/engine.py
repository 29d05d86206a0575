"""Where units of work run: here one after the other, or on a cluster; the journal keeps each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, TypeVar

from tqdm import tqdm

from headprune_lib.replication.store.files import Arrays
from headprune_lib.replication.store.journal import Journal

if TYPE_CHECKING:
    from headprune_lib.replication.cluster import Cluster

Unit = Callable[[], Arrays]
"""One mask, or one head of a sweep, on one set of examples."""

T = TypeVar("T")
_cluster: ContextVar[Cluster | None] = ContextVar("_cluster", default=None)
_turn: ContextVar[threading.Lock | None] = ContextVar("_turn", default=None)


@contextmanager
def running_on(cluster: Cluster) -> Iterator[None]:
    """Inside, units are sent to a cluster: see :mod:`headprune_lib.replication.cluster`."""
    token = _cluster.set(cluster)
    try:
        yield
    finally:
        _cluster.reset(token)


def everywhere(function: Callable[[str], T], argument: str) -> list[T]:
    """What a function returns in this process, or in each one of the cluster that units run on."""
    cluster = _cluster.get()
    return [function(argument)] if cluster is None else cluster.everywhere(function, argument)


def side_by_side(functions: Sequence[Callable[[], T]]) -> list[T]:
    """What each function returns; on a cluster, none waits for the units of another.

    Only one of them runs in this process at a time, because they share models: the next one takes
    its turn while the others wait for their units.

    Raises:
        Exception: what the first of them raised, after all others have ended.
    """
    if _cluster.get() is None:
        return [function() for function in functions]
    turn = _turn.get() or threading.Lock()

    def run(function: Callable[[], T], outcome: Future[T]) -> None:
        _turn.set(turn)
        with turn:
            try:
                outcome.set_result(function())
            except BaseException as error:  # raised where the outcome is read
                outcome.set_exception(error)

    outcomes: list[Future[T]] = [Future() for _ in functions]
    for given in zip(functions, outcomes, strict=True):
        # a daemon does not keep an interrupted process from ending
        threading.Thread(target=copy_context().run, args=(run, *given), daemon=True).start()
    with turn_passed():
        wait(outcomes)
    return [outcome.result() for outcome in outcomes]


@contextmanager
def turn_passed() -> Iterator[None]:
    """Inside, this thread waits, and another one of :func:`side_by_side` may run."""
    turn = _turn.get()
    if turn is None:
        yield
        return
    turn.release()
    try:
        yield
    finally:
        turn.acquire()


def run_units(
    units: Mapping[str, Unit], journal: Journal, title: str, *, here: bool = False
) -> dict[str, Arrays]:
    """The outcome of every unit, from the journal or computed now, with a bar and the time left.

    Args:
        units: by key; what a unit depends on and the journal's folder does not tell (the hash of
            weights trained on this machine) belongs in its key. A subject that a unit uses is
            loaded anew on a worker; other objects are sent there.
        title: of the progress bar.
        here: one after the other in this process, even where there is a cluster: for what is timed.

    Raises:
        UnitsFailed: from a cluster, for units that failed; the others are done, and kept.
    """
    todo = {key: unit for key, unit in units.items() if not journal.done(key)}
    cluster, results = None if here else _cluster.get(), {}
    with tqdm(total=len(todo), desc=title, unit="part", disable=not todo) as bar:
        if cluster is not None:
            for key, arrays in cluster.compute(todo, journal, title):
                results[key] = arrays
                bar.update()
        for key in [key for key in units if key not in results]:
            results[key] = journal.unit(key, units[key])
            bar.update(key in todo)
    return {key: results[key] for key in units}
