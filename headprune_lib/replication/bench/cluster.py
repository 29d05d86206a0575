"""Many pretended workers: how busy a scheduler and one client keep them, and what these take.

``python -m headprune_lib.replication.bench.cluster 1000`` starts that many in one process, 250 to a
Dask worker; their units sleep for a minute, as a mask of BERT-base takes on a core. The client, the
scheduler, the journal and what is sent are the real ones. Nothing is stored.
"""

from __future__ import annotations

import contextlib
import logging
import resource
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from unittest import mock

import distributed
import numpy as np
import torch

from headprune_lib.replication import cluster
from headprune_lib.replication.store import Arrays, Journal

_TOGETHER = 250
UNITS = 4  # a worker
SECONDS = 60.0  # of a unit


def _asleep(seconds: float) -> Arrays:
    time.sleep(seconds)
    return {"correct": np.zeros(9815, bool)}


def busy_share(n_workers: int, seconds: float = SECONDS) -> tuple[float, float]:
    """The share of the workers' time that units took, and the memory of all of it in bytes."""
    units = {f"mask {i}": partial(_asleep, seconds) for i in range(UNITS * n_workers)}
    quiet = {"dashboard_address": None, "silence_logs": logging.CRITICAL, "processes": False}
    with (  # pretended workers are threads of one process, and compute nothing
        mock.patch.object(cluster, "_one_at_a_time", contextlib.nullcontext()),
        mock.patch.object(torch, "set_num_threads"),
        tempfile.TemporaryDirectory() as folder,
        distributed.LocalCluster(
            n_workers=-(-n_workers // _TOGETHER),
            threads_per_worker=min(n_workers, _TOGETHER),
            **quiet,
        ) as workers,
        contextlib.closing(cluster.Cluster(partial(distributed.Client, workers))) as found,
    ):
        started = time.perf_counter()
        done = sum(1 for _ in found.compute(units, Journal(Path(folder)), "pretended"))
        wall = time.perf_counter() - started
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return done * seconds / (n_workers * wall), peak


if __name__ == "__main__":
    share, peak = busy_share(int(sys.argv[1]), float(sys.argv[2]) if sys.argv[2:] else SECONDS)
    sys.stdout.write(f"{sys.argv[1]} workers busy {share:.0%}, {peak / 1e9:.2f} GB in all\n")
