"""Units of work on a Dask cluster: processes of this machine, or workers of a scheduler.

The inputs of a unit are sent by reference: a subject is pickled as a call that loads it, once in
each worker process, and texts that many units read are sent once and kept there. Workers write
outcomes into the journal themselves, so that nothing is lost if the client dies. Outcomes also
come back, for a client that does not see the workers' files.
"""

from __future__ import annotations

import io
import logging
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

# Units need these, too: a worker imports this module before all else, since two of its threads
# cannot import transformers at once.
from headprune_lib.replication import measurements, setups  # noqa: F401
from headprune_lib.replication.engine import Unit, turn_passed
from headprune_lib.replication.store.files import Arrays, Journal, UnitsFailed

try:
    import cloudpickle  # a dependency of Dask
    import dask
    import distributed
except ImportError as error:  # pragma: no cover, an extra that the tests have
    raise ValueError(
        "--workers and --scheduler need Dask, which is not installed. Run pip install "
        "'headprune[cluster]', or leave both out"
    ) from error

# Dask makes workers return every freed block to the system at once. A forward pass frees and
# requests the same megabytes layer by layer: with these settings it takes two thirds of the time.
_KEEPS_MEMORY = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": str(2**40),
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": str(2**25),
}

_RETRIES = 2  # of a unit that raises
_LOST = 3  # connections to the scheduler that may break in a row without a unit finished
_CONNECT, _RECONNECT = "30 s", "300 s"  # a lost scheduler may take longer to come back
_FETCH = "60s"
_KILLED = "the worker died each time (out of memory?): see the worker's log"
_SILENT = 10.0  # seconds without a worker before a message, and between messages
_one_at_a_time = threading.Lock()


class Cluster:
    """Workers that units are sent to, from :func:`local_processes` or :func:`at_scheduler`."""

    def __init__(self, connect: Callable[..., distributed.Client]):
        self._connect = connect
        self._client = connect(timeout=_CONNECT)
        self._left = False
        self._said = 0.0  # time of the last message that there is no worker

    def close(self) -> None:
        """Disconnect from the cluster; the work of others there goes on."""
        self._left = True
        self._client.close()

    def everywhere(self, function: Callable[[str], Any], argument: str) -> list[Any]:
        """Call a function in each worker, and return the results of those that answer."""
        return [*self._client.run(_called, function, argument, on_error="ignore").values()]

    def compute(
        self, units: Mapping[str, Unit], journal: Journal, title: str
    ) -> Iterator[tuple[str, Arrays]]:
        """Yield each unit with its outcome as it finishes.

        A unit whose worker dies is sent to another one, up to the scheduler's ``allowed-failures``
        times, and then tried alone, since another unit may have killed the worker. A unit that
        raises is tried twice more. If the scheduler dies, the units that are not in the journal
        are sent to the one that is started next at the same address.

        Raises:
            UnitsFailed: after all others are done, with the name and the error of each that failed.
            OSError: the scheduler cannot be reached.
        """
        failed: dict[str, str] = {}
        yield from self._together(units, journal, failed)
        for key in [key for key, reason in failed.items() if reason == _KILLED]:
            del failed[key]
            yield from self._together({key: units[key]}, journal, failed, " alone")
        if failed:
            raise UnitsFailed(title, failed, journal.folder)

    def _together(
        self,
        units: Mapping[str, Unit],
        journal: Journal,
        failed: dict[str, str],
        alone: str = "",
    ) -> Iterator[tuple[str, Arrays]]:
        left, lost = dict(units), 0
        while left:
            client, (sent, shared) = self._client, _pickled(left)
            try:
                kept = {number: client.scatter(each) for number, each in shared.items()}
            except OSError:  # the worker that was to keep it has just ended
                sent = {}
            before, submit = len(left), partial(client.submit, retries=_RETRIES, pure=False)
            # Two runs of a measurement name a task alike, so that the scheduler computes it once.
            group = f"{journal.folder}{alone}"
            futures = {
                submit(
                    _compute,
                    str(journal.folder),
                    key,
                    content,
                    {number: kept[number] for number in numbers},
                    key=(group, key),
                ): key
                for key, (content, numbers) in sent.items()
            }
            for future in self._finished(list(futures)):
                key = futures.pop(future)
                if future.cancelled():  # the scheduler was lost
                    continue
                if (error := future.exception()) is not None:
                    killed = isinstance(error, distributed.scheduler.KilledWorker)
                    failed[key] = _KILLED if killed else f"{type(error).__name__}: {error}"
                    del left[key]
                elif (arrays := _outcome(future, key, units[key], journal)) is not None:
                    yield key, arrays
                    del left[key]
                future.release()  # the scheduler may forget the outcome, or the failure
            if left:
                lost = lost + 1 if len(left) == before else 1
                if lost > _LOST or self._left:
                    raise OSError(
                        f"the connection to the scheduler was lost {lost} times in a row. Finished "
                        f"units are kept in {journal.folder}"
                    )
                if client is self._client:  # else another thread has connected anew
                    client.close()
                    self._client = self._connect(timeout=_RECONNECT)

    def _finished(self, futures: list[distributed.Future]) -> Iterator[distributed.Future]:
        """Yield futures as they finish, with a message while no worker is connected."""
        done, client, finished = threading.Event(), self._client, distributed.as_completed(futures)

        def watch() -> None:
            while not done.wait(_SILENT):
                try:
                    n_workers = client.scheduler_info(n_workers=0)["n_workers"]
                except (KeyError, OSError, RuntimeError):  # closed; the next has its own watch
                    return
                now = time.monotonic()
                if not n_workers and now - self._said > _SILENT / 2:
                    self._said = now
                    sys.stderr.write("waiting for workers: 0 connected\n")

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        try:
            for _ in futures:
                with turn_passed():
                    future = next(finished)
                yield future
        finally:
            done.set()


class _Pickler(cloudpickle.Pickler):
    """Leaves out objects that are sent once, and records them by number."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.left_out: dict[int, Any] = {}

    def persistent_id(self, each: Any) -> int | None:
        if not getattr(type(each), "sent_once", False):
            return None
        self.left_out[id(each)] = each
        return id(each)


class _Unpickler(pickle.Unpickler):
    def __init__(self, content: bytes, kept: Mapping[int, Any]) -> None:
        super().__init__(io.BytesIO(content))
        self.persistent_load = kept.__getitem__


def _pickled(
    units: Mapping[str, Unit],
) -> tuple[dict[str, tuple[bytes, list[int]]], dict[int, Any]]:
    """Each unit as bytes with the numbers of the objects left out, and those objects by number."""
    sent, shared = {}, {}
    for key, unit in units.items():
        pickler = _Pickler(file := io.BytesIO())
        pickler.dump(unit)
        shared |= pickler.left_out
        sent[key] = file.getvalue(), [*pickler.left_out]
    return sent, shared


def _compute(
    folder: str, key: str, content: bytes, kept: Mapping[int, Any]
) -> tuple[Arrays, float]:
    """On a worker: compute a unit into the journal, and return it with the seconds that it took."""
    # Heads are masked by hooks on a model that all units of a process share: one unit at a time.
    with _one_at_a_time:
        torch.set_num_threads(distributed.get_worker().state.nthreads)
        unit, started = _Unpickler(content, kept).load(), time.perf_counter()
        return Journal(Path(folder)).unit(key, unit), time.perf_counter() - started


def _called(function: Callable[[str], Any], argument: str) -> Any:
    """On a worker: call a function."""
    return function(argument)


def _outcome(future: distributed.Future, key: str, unit: Unit, journal: Journal) -> Arrays | None:
    """Return a unit's outcome: from the journal if its file is visible, else from the worker.

    None if it was lost. The journal comes first, since a scheduler that has died never answers.
    """
    journal.computed(key)
    if not journal.done(key):
        try:
            journal.keep(key, *future.result(timeout=_FETCH))
        except (TimeoutError, CancelledError):
            return None
    return journal.unit(key, unit)


def dask_setup(_worker: Any) -> None:
    """Make each local process ignore Ctrl-C, which is for the client; called by Dask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def local_processes(n: int) -> Iterator[Cluster]:
    """A cluster of ``n`` one-thread processes on this machine; one that dies is restarted."""
    quiet = {"dashboard_address": None, "silence_logs": logging.CRITICAL + 1, "preload": __name__}
    with (
        dask.config.set(_KEEPS_MEMORY),
        distributed.LocalCluster(n_workers=n, threads_per_worker=1, **quiet) as processes,
        closing(Cluster(partial(distributed.Client, processes))) as cluster,
    ):
        yield cluster


@contextmanager
def at_scheduler(address: str) -> Iterator[Cluster]:
    """The workers of a scheduler, by address (``tcp://10.0.0.1:8786``) or by its ``.json`` file.

    Raises:
        OSError: nothing answers there.
        ValueError: not an address, or no such file.
    """
    if address.endswith(".json") and not Path(address).is_file():  # which Dask would wait for
        raise ValueError(f"no scheduler file {address}. Start a scheduler, or give its address")
    where = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
    try:
        cluster = Cluster(partial(distributed.Client, **where))
    except OSError as error:
        raise OSError(
            f"no scheduler answered at {address} within {_CONNECT}. Start one there, or correct the "
            "address"
        ) from error
    with closing(cluster):
        yield cluster
