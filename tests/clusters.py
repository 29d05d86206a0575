"""A real Dask scheduler and its workers, in processes that a test may kill."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headprune_lib.replication.paths import project_root


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def start(*words: str, log: Path) -> subprocess.Popen:
    """``dask scheduler …`` or ``dask worker …`` as the head of a process group of its own."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(project_root()),
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
    }
    with log.open("ab") as opened:
        streams = {"stdout": opened, "stderr": opened}
        command = [sys.executable, "-m", "dask", *words]
        return subprocess.Popen(command, start_new_session=True, env=environment, **streams)


def start_scheduler(port: int, folder: Path) -> subprocess.Popen:
    where = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard", "--no-show"]
    return start("scheduler", *where, log=folder / "scheduler.log")


def start_workers(port: int, folder: Path, n: int = 2) -> subprocess.Popen:
    how = ["--nworkers", str(n), "--nthreads", "1", "--no-dashboard", "--death-timeout", "300"]
    where = ["--local-directory", str(folder / "workers")]
    return start("worker", f"tcp://127.0.0.1:{port}", *how, *where, log=folder / "workers.log")


def end(process: subprocess.Popen) -> None:
    """End a process and those that it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


@contextmanager
def running(folder: Path, n: int = 2) -> Iterator[str]:
    """A scheduler with ``n`` worker processes; its address."""
    port = free_port()
    started = [start_scheduler(port, folder), start_workers(port, folder, n)]
    try:
        yield f"tcp://127.0.0.1:{port}"
    finally:
        for process in started:
            end(process)
