"""Units on a real scheduler with two worker processes: the same outcomes, whatever dies."""

import os
import pickle
import signal
import time
from functools import partial
from pathlib import Path

import dask
import distributed
import numpy as np
import pytest
from ownmodels import run

from headprune_lib.replication import cluster, measurements
from headprune_lib.replication.engine import run_units, running_on, side_by_side
from headprune_lib.replication.setups import EncoderSubject
from headprune_lib.replication.store import Journal, UnitsFailed

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def address():
    """A scheduler's, with two worker processes."""
    once = {"distributed.scheduler.allowed-failures": 1}
    with dask.config.set(once), distributed.LocalCluster(2, threads_per_worker=1) as processes:
        yield processes.scheduler_address


@pytest.fixture
def two_workers(address):
    with cluster.at_scheduler(address) as found, running_on(found):
        yield address


def noted(folder: Path, wait: float = 0.0):
    """Units that note their process and their start, and what they give in order."""

    def unit(i: int) -> dict:
        with (folder / "log").open("a") as log:
            log.write(f"{i} {os.getpid()}\n")
        time.sleep(wait)
        return {"loss": np.random.default_rng(i).normal(size=5)}

    return {f"head {i}": lambda i=i: unit(i) for i in range(8)}


def starts(folder: Path) -> list[tuple[int, int]]:
    lines = (folder / "log").read_text().splitlines()
    return [tuple(map(int, line.split())) for line in lines if line.count(" ") == 1]


def assert_in_order_gives(found: dict, folder: Path) -> None:
    expected = run_units(noted(folder), Journal(folder / "in order"), "heads")
    assert list(found) == list(expected)
    for key, arrays in expected.items():
        assert found[key]["loss"].tobytes() == arrays["loss"].tobytes()


def test_units_run_in_two_processes_and_give_what_they_give_in_order(two_workers, tmp_path):
    journal = Journal(tmp_path / "journal")
    journal.unit("head 3", noted(tmp_path)["head 3"])
    outcomes = run_units(noted(tmp_path, 0.3), journal, "heads")
    first, *others = starts(tmp_path)
    assert first == (3, os.getpid()) and 3 not in {i for i, _ in others}, "what is done is not sent"
    processes = {process for _, process in others}
    assert len(processes) == 2 and os.getpid() not in processes
    assert all(journal.done(key) for key in outcomes) and journal.resumed_seconds == 0
    assert_in_order_gives(outcomes, tmp_path)
    (tmp_path / "log").unlink()
    run_units(noted(tmp_path), Journal(tmp_path / "timed"), "heads", here=True)
    assert {process for _, process in starts(tmp_path)} == {os.getpid()}, "timed in this process"


def test_units_of_several_are_in_flight_together(two_workers, tmp_path):
    def unit(i: int) -> dict:
        (tmp_path / str(i)).touch()
        while not (tmp_path / str(1 - i)).exists():  # the other has begun
            time.sleep(0.05)
        return {"n": i}

    def part(i: int) -> dict:
        return run_units({f"of {i}": lambda: unit(i)}, Journal(tmp_path / f"j{i}"), f"part {i}")

    found = side_by_side([partial(part, i) for i in (0, 1)])
    assert [int(each[f"of {i}"]["n"]) for i, each in enumerate(found)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        side_by_side([partial(part, 0), lambda: 1 / 0])


def test_a_unit_that_kills_its_worker_is_named_and_the_others_are_done(two_workers, tmp_path):
    units = noted(tmp_path) | {"head 3": lambda: os.kill(os.getpid(), signal.SIGKILL)}
    journal = Journal(tmp_path / "journal")
    with pytest.raises(UnitsFailed, match="1 of the units.*'head 3': the worker"):
        run_units(units, journal, "heads")
    assert [key for key in units if not journal.done(key)] == ["head 3"]
    found = run_units(noted(tmp_path), Journal(journal.folder), "heads")
    assert_in_order_gives(found, tmp_path)


def test_what_units_share_is_sent_again_if_the_worker_that_keeps_it_ends(
    two_workers, tmp_path, monkeypatch
):
    class Texts:
        sent_once, lengths = True, (3, 1, 2)

    scatter, sent = distributed.Client.scatter, []

    def interrupted(client, shared):
        sent.append(shared)
        if len(sent) == 1:
            raise OSError("Stream is closed")
        return scatter(client, shared)

    monkeypatch.setattr(distributed.Client, "scatter", interrupted)
    texts = Texts()
    units = {str(i): lambda i=i: {"n": texts.lengths[i]} for i in range(3)}
    found = run_units(units, Journal(tmp_path / "journal"), "texts")
    assert [int(arrays["n"]) for arrays in found.values()] == [3, 1, 2] and len(sent) == 2


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_connection_that_is_closed_ends_its_watch(two_workers, monkeypatch):
    monkeypatch.setattr(cluster, "_SILENT", 0.01)
    with cluster.at_scheduler(two_workers) as connected:
        client = connected._client
        finished = connected._finished(client.map(time.sleep, [0, 0.5]))
        next(finished)
        client.close()
        time.sleep(0.1)
        finished.close()


@pytest.mark.parametrize("artifact", ["figure3b", "figure5"])
def test_a_measurement_on_two_workers_has_the_same_bytes_as_in_order(
    smoke, tmp_path, monkeypatch, artifact
):
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path / "in order"))
    measurements.get(artifact, smoke)
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path / "two"))
    told = run("reproduce", artifact, "--profile", "smoke", "--workers", 2)
    assert told.exit_code == 0, told.output
    in_order, two = (
        {path.name: path.read_bytes() for path in (tmp_path / folder).rglob("*.npz")}
        for folder in ("in order", "two")
    )
    assert in_order and in_order == two


def test_a_worker_without_the_weights_refuses_to_train_them(smoke, tmp_path):
    sent, held = pickle.dumps(EncoderSubject.of(smoke)), tmp_path / "elsewhere"

    def unit() -> dict:
        here = os.environ["HEADPRUNE_CACHE"]
        os.environ["HEADPRUNE_CACHE"] = str(held)
        try:
            return {"n": len(pickle.loads(sent).test)}
        finally:
            os.environ["HEADPRUNE_CACHE"] = here

    refused = pytest.raises(UnitsFailed, match="has no weights at .*HEADPRUNE_CACHE")
    # workers have smoke's cache
    with cluster.local_processes(1) as workers, running_on(workers), refused:
        run_units({"a": unit}, Journal(tmp_path / "journal"), "heads")
    assert not held.exists()


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr(cluster, "_CONNECT", "0.5 s")
    with (
        pytest.raises(OSError, match=r"no scheduler answered at tcp://127.0.0.1:1 within 0\.5 s"),
        cluster.at_scheduler("tcp://127.0.0.1:1"),
    ):
        pass
