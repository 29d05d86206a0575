"""What machines timed stands together in one file."""

from headprune_lib.replication.bench.stored import read_runs, store_run
from headprune_lib.replication.pages import tables

ROW = {"what": "a", "reference": "b", "seconds": 2.0, "reference_seconds": 1.0, "ratio": 2.0}
ROW |= {"quartiles": [1.9, 2.1], "floor": None, "target": "at most 2.0", "n": None}


def timed(path, cpu, day, **row):
    hardware = {"cpu": cpu, "cores": 2, "gpu": None}
    store_run(path, [ROW | row], {"date": f"2026-11-{day}", "hardware": hardware})


def test_a_machine_replaces_its_own_run_alone(tmp_path):
    path = tmp_path / "bench.x.json"
    assert read_runs(path) == [] and tables.bench_table(path).empty
    timed(path, "old", 20, ratio=3.0)
    timed(path, "new", 21, ratio=1.5)
    timed(path, "old", 19, ratio=2.5)
    shown = tables.bench_table(path)
    assert shown.columns[2:4].tolist() == [f"ratio (quartiles), {cpu}" for cpu in ("new", "old")]
    assert shown.iloc[0, 2].startswith("1.50") and shown.iloc[0, 3].startswith("2.50")
    assert shown["met"].tolist() == ["yes, no"] and shown["floor"].tolist() == ["–"]
    timed(path, "new", 22, what="c", n=4)
    shown = tables.bench_table(path)
    assert shown["time of"].tolist() == ["c", "a"]
    assert shown["each a second"].tolist() == ["2, 4", ""]
