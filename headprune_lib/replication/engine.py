"""Running units of work, here one after another or on a cluster; the journal keeps each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, TypeVar

from tqdm import tqdm

from headprune_lib.replication.store.files import Arrays, Journal

if TYPE_CHECKING:
    from headprune_lib.replication.cluster import Cluster

Unit = Callable[[], Arrays]
"""Computes one mask, or one head of a sweep, on one set of examples."""

T = TypeVar("T")
_cluster: ContextVar[Cluster | None] = ContextVar("_cluster", default=None)
_turn: ContextVar[threading.Lock | None] = ContextVar("_turn", default=None)


@contextmanager
def running_on(cluster: Cluster) -> Iterator[None]:
    """Within the context, send units to a cluster: see :mod:`headprune_lib.replication.cluster`."""
    token = _cluster.set(cluster)
    try:
        yield
    finally:
        _cluster.reset(token)


def everywhere(function: Callable[[str], T], argument: str) -> list[T]:
    """Call a function in this process, or in each worker of the cluster; return the results."""
    cluster = _cluster.get()
    return [function(argument)] if cluster is None else cluster.everywhere(function, argument)


class _Work:
    """The work of a function: its units known so far, and the functions that it runs in groups.

    The whole work has the progress bar, from its first unit on.
    """

    def __init__(self, title: str = "", whole: _Work | None = None):
        self._title, self._whole = title, whole or self
        self._known, self._ended, self._groups = 0, False, list[list[_Work]]()
        self._bar: tqdm | None = None

    def shared_out(self, n: int) -> list[_Work]:
        """Add a group of ``n`` functions, and return the work of each."""
        self._groups.append([_Work(whole=self._whole) for _ in range(n)])
        return self._groups[-1]

    def of(self, function: Callable[[], T]) -> T:
        """Run the function whose work this is, and return its result."""
        token = _work.set(self)
        try:
            outcome = function()
            if self._bar is not None:
                self._bar.total = self._bar.n
            return outcome
        finally:
            _work.reset(token)
            self._ended = True
            if self._bar is not None:
                self._bar.close()

    def expected(self) -> float:
        """Expected number of units; a running function counts as the mean of those that ended.

        Until one has ended, it counts as the most that are known of any in the group.
        """
        total = float(self._known)
        for group in self._groups:
            ended = [n for each in group if each._ended and (n := each.expected())]
            usual = sum(ended) / len(ended) if ended else max(each.expected() for each in group)
            total += sum(each.expected() if each._ended else usual for each in group)
        return total

    def begins(self, n: int, title: str) -> Callable[[], object]:
        """Record ``n`` more units, and return the function to call when one of them is done."""
        self._known, whole = self._known + n, self._whole
        total = round(whole.expected())
        if whole._bar is None and n:
            whole._bar = tqdm(desc=whole._title, unit="unit", total=total)
        if (bar := whole._bar) is None:
            return lambda: None
        bar.total = max(bar.n + n, total)
        if title != whole._title:
            bar.set_postfix_str(title)
        return bar.update


_work: ContextVar[_Work | None] = ContextVar("_work", default=None)


def in_turn(functions: Sequence[Callable[[], T]], title: str = "") -> list[T]:
    """Run functions one after another under one progress bar; return their results."""
    work = _work.get()
    if work is None:
        return _Work(title).of(lambda: in_turn(functions, title))
    parts = work.shared_out(len(functions))
    return [part.of(function) for part, function in zip(parts, functions, strict=True)]


def side_by_side(functions: Sequence[Callable[[], T]], title: str = "") -> list[T]:
    """Like :func:`in_turn`, but on a cluster no function waits for the units of another.

    Only one runs in this process at a time, because they share models: the next one takes its turn
    while the others wait for their units.

    Raises:
        Exception: that of the first function that failed, after all have ended.
    """
    work, turn = _work.get(), _turn.get() or threading.Lock()
    if _cluster.get() is None:
        return in_turn(functions, title)
    if work is None:
        return _Work(title).of(lambda: side_by_side(functions, title))

    def run(part: _Work, function: Callable[[], T], outcome: Future[T]) -> None:
        _turn.set(turn)
        with turn:
            try:
                outcome.set_result(part.of(function))
            except BaseException as error:  # raised where the outcome is read
                outcome.set_exception(error)

    outcomes: list[Future[T]] = [Future() for _ in functions]
    for given in zip(work.shared_out(len(functions)), functions, outcomes, strict=True):
        # a daemon does not keep an interrupted process from ending
        threading.Thread(target=copy_context().run, args=(run, *given), daemon=True).start()
    with turn_passed():
        wait(outcomes)
    return [outcome.result() for outcome in outcomes]


@contextmanager
def turn_passed() -> Iterator[None]:
    """Within the context this thread only waits, and another of :func:`side_by_side` may run."""
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
    """Return the outcome of every unit, from the journal or computed now, under a progress bar.

    Args:
        units: by key, which must contain what the outcome depends on and the journal's folder does
            not tell (such as the hash of weights trained on this machine). Workers load a unit's
            subject themselves; other objects are sent to them.
        title: of the units, on the bar.
        here: run one after another in this process even if there is a cluster, for timings.

    Raises:
        UnitsFailed: from a cluster, for units that failed; the others are done, and kept.
    """
    if (work := _work.get()) is None:
        return _Work(title).of(lambda: run_units(units, journal, title, here=here))
    todo = {key: unit for key, unit in units.items() if not journal.done(key)}
    cluster, results = None if here else _cluster.get(), {}
    done = work.begins(len(todo), title)
    if cluster is not None:
        for key, arrays in cluster.compute(todo, journal, title):
            results[key] = arrays
            done()
    for key in [key for key in units if key not in results]:
        results[key] = journal.unit(key, units[key])
        if key in todo:
            done()
    return {key: results[key] for key in units}
