"""Result files: readable, reproducible to the byte, and never lost to a kill or a damaged disk."""

import dataclasses
import json
import lzma
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from filelock import FileLock, Timeout
from hypothesis import given
from hypothesis import strategies as st

from headprune_lib.replication import paths
from headprune_lib.replication.store import (
    OUTCOMES,
    Journal,
    Key,
    Measured,
    Part,
    Result,
    ResultDamaged,
    Wanted,
    computing_on,
    files,
    find,
    fingerprint,
    load,
    make_signature,
    obtain,
    plain,
    provenance,
    save,
    text,
)
from headprune_lib.replication.store.files import locked, npz_arrays, npz_bytes, replace_files

KEY = Key("one_head", "reviews", "m")
SIGNATURE = make_signature(
    1,
    {"lr": 2.00000001e-5, "seeds": (0, 1)},
    {"order": "random"},
    {"a.csv": "00"},
    {"model": "11"},
    {"epochs": 3},
)


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path


RAW = {"right": np.array([[1, 0], [1, 1]], np.int8), "loss": np.array([0.1, np.inf])}


def example(raw=RAW, **changes):
    record = {"kind": "self", "layer": 0, "head": 1, "delta": -0.012345678, "interval": (-0.1, 0.2)}
    content = {
        "measurement": "one_head",
        "profile": "default",
        "task": "reviews",
        "model": "m",
        "dataset": "d",
        "n_examples": 2,
        "metric": "accuracy",
        "unit": "fraction",
        "values": {
            "heads": [record, record],
            "counts": {"heads": np.int64(2)},
            "curve": {"mean": np.linspace(0, 1, 4), "interval": [[0.0, 1.0], [0.5, 1.0]]},
        },
        "statistics": "ab12",
        "parts": {OUTCOMES: part(raw)},
    }
    return Result(**{**content, **changes})


def part(raw):
    return Part(
        SIGNATURE, [{"seed": 0, "loss": float("nan")}], {"seconds": 1.0, "date": "2026"}, raw
    )


def names(folder):
    found = sorted(path.name for path in folder.rglob("*") if path.is_file())
    return [name for name in found if not name.endswith(".lock")]  # which stay, see `locked`


# --- text -----------------------------------------------------------------------------------------


def test_json_is_laid_out_for_diffs():
    text = example().to_json()
    lines = [line.strip().rstrip(",") for line in text.splitlines()]
    record = '{"delta": -0.0123457, "head": 1, "interval": [-0.1, 0.2], "kind": "self", "layer": 0}'
    assert lines.count(record) == 2
    assert '"mean": [0.0, 0.333333, 0.666667, 1.0]' in lines
    assert '{"loss": null, "seed": 0}' in lines, "NaN must not reach strict JSON"
    assert text.endswith("}\n") and '"raw"' not in text
    keys = list(json.loads(text))
    assert keys == sorted(keys)
    signature = json.loads(text)["parts"][OUTCOMES]["signature"]
    assert signature["parameters"]["lr"] == 2.00000001e-5, "as it was hashed"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_subnormal=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_layout_is_strict_json_and_shortening_happens_once(value):
    short = plain(value)
    laid_out = text.layout(short)

    def reject(word):
        raise AssertionError(f"{word} is not JSON")

    assert json.loads(laid_out, parse_constant=reject) == short
    assert text.layout(plain(json.loads(laid_out))) == laid_out


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300))
def test_six_digits_survive_a_round_trip(number):
    assert plain(number) == pytest.approx(number, rel=5.1e-6, abs=1e-320)
    assert plain(json.loads(json.dumps(plain(number)))) == plain(number)


def test_a_value_json_cannot_hold_is_named():
    with pytest.raises(TypeError, match=r"values\.paths\[1\] is a PosixPath"):
        example(values={"paths": [1, paths.project_root()]}).to_json()


# --- signature and provenance ---------------------------------------------------------------------


def test_signature_ignores_order_and_sees_every_part():
    def make(version=1, lr=1e-3, data="a", weights="b", recipe=None, own=None):
        return make_signature(
            version,
            {"x": 1, "lr": lr},
            own or {},
            {"f": data},
            {"w": weights},
            recipe or {"epochs": 3},
        )["digest"]

    assert (
        make()
        == make_signature(1, {"lr": 1e-3, "x": 1}, {}, {"f": "a"}, {"w": "b"}, {"epochs": 3})[
            "digest"
        ]
    )
    changed = [
        make(version=2),
        make(lr=2e-3),
        make(data="z"),
        make(weights="z"),
        make(recipe={"epochs": 4}),
        make(own={"order": "random"}),
    ]
    assert len({make(), *changed}) == 7
    assert json.loads(json.dumps(SIGNATURE)) == SIGNATURE, "must equal itself when read back"


@pytest.mark.parametrize("bad", [float("nan"), np.float32(1), {1, 2}])
def test_signature_rejects_what_has_no_one_spelling(bad):
    with pytest.raises(ValueError, match="finite numbers"):
        make_signature(1, {"x": bad}, {}, {}, {}, {})


def test_provenance_names_versions_and_hardware():
    found = provenance("headprune reproduce figure1b", 12.3456)
    assert set(found["packages"]) == {"torch", "transformers", "numpy", "scipy", "tokenizers"}
    assert found["hardware"]["cores"] >= 1 and found["hardware"]["cpu"]
    assert found["seconds"] == 12.3
    assert "command" in found and found["date"].endswith("+00:00")


def test_provenance_names_the_device_that_computed_and_no_other(monkeypatch):
    monkeypatch.setattr("torch.cuda.get_device_name", lambda *_: "NVIDIA X")
    for there, device, kind, gpu in [
        (True, "cpu", "cpu", None),
        (True, "cuda:1", "cuda", "NVIDIA X"),
        (False, "cuda", "cpu", None),
    ]:
        monkeypatch.setattr("torch.cuda.is_available", lambda there=there: there)
        found = provenance("", 1.0, [computing_on(device)])
        assert (found["device"], found["hardware"]["gpu"]) == (kind, gpu)
    assert provenance("", 1.0, [("cpu", None), ("cuda", "A")])["device"] == "cpu, cuda"


# --- store ----------------------------------------------------------------------------------------


def test_save_and_load_round_trip(folders):
    path = save(example())
    assert path == folders / "results" / "one_head" / "reviews.m.json"
    back = load(KEY)
    assert back.parts[OUTCOMES].signature == SIGNATURE
    assert back.values["heads"][0]["interval"] == [-0.1, 0.2]
    assert back.parts[OUTCOMES].runs == [{"seed": 0, "loss": None}]
    for name, array in RAW.items():
        np.testing.assert_array_equal(back.raw[name], array)
        assert back.raw[name].dtype == array.dtype
    assert back.to_json() == path.read_text() == dataclasses.replace(back).to_json()


def test_what_is_stored_is_found_by_looking(folders):
    save(example())
    save(example(task="tweets"))
    save(example(measurement="speed"))
    assert names(folders / "results" / "one_head") == [
        "reviews.m.json",
        "reviews.m.outcomes.npz",
        "tweets.m.json",
        "tweets.m.outcomes.npz",
    ]
    assert find("one_head") == [KEY, Key("one_head", "tweets", "m")]
    assert find() == [*find("one_head"), Key("speed", "reviews", "m")]
    assert find("nothing") == []


def test_each_part_has_its_own_file(folders):
    save(example(parts={"importance": part(RAW), "random order": part({"x": np.ones(2)})}))
    assert names(folders / "results") == [
        "reviews.m.importance.npz",
        "reviews.m.json",
        "reviews.m.random-order.npz",
    ]
    back = load(KEY)
    assert list(back.parts) == ["importance", "random order"]
    with pytest.raises(KeyError):
        _ = back.raw


def test_a_missing_result_names_the_command():
    with pytest.raises(FileNotFoundError, match="no stored result .*tweets.m.json$"):
        load(Key("table3", "tweets", "m"))
    with pytest.raises(FileNotFoundError, match="measure it with: headprune reproduce table3$"):
        load(KEY, command="headprune reproduce table3")


def npz(path):
    return path.with_name(f"{path.stem}.{OUTCOMES}.npz")


def test_bytes_do_not_depend_on_clock_or_order(monkeypatch):
    path = save(example())
    first = path.read_bytes(), npz(path).read_bytes()
    before = path.stat().st_mtime_ns
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 1e7)
    save(example(raw={name: np.asfortranarray(RAW[name]) for name in reversed(RAW)}))
    assert (path.read_bytes(), npz(path).read_bytes()) == first
    assert path.stat().st_mtime_ns == before, "a file that already holds its content is left alone"


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_no_npz(content):
    with pytest.raises(ValueError, match="not a readable .npz"):
        npz_arrays(content)


def test_npz_keeps_scalars_empties_and_text_and_refuses_objects():
    arrays = {"scalar": np.array(3.5), "none": np.zeros((0, 4)), "text": np.array(["a", "bé"])}
    back = npz_arrays(npz_bytes(arrays))
    assert {k: (v.shape, v.dtype) for k, v in back.items()} == {
        k: (v.shape, v.dtype) for k, v in arrays.items()
    }
    assert npz_arrays(npz_bytes({})) == {}
    with pytest.raises(ValueError, match="Object arrays"):
        npz_bytes({"o": np.array([object()])})


def test_npz_takes_the_smallest_way_of_each_array_and_reads_back_by_rows():
    rng = np.random.default_rng(0)
    # Right or wrong under 60 masks: few examples change from one mask to the next.
    outcomes = (rng.random(2000) < 0.7) ^ (rng.random((60, 2000)) < 0.01)
    arrays = {
        "by rows": outcomes.T.copy(),
        "by columns": outcomes,
        "noise": rng.normal(size=(9, 9)),
    }
    content = npz_bytes(arrays)
    back = npz_arrays(content)
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].flags.c_contiguous
    sizes = {name: len(npz_bytes({name: array})) for name, array in arrays.items()}
    assert abs(sizes["by rows"] - sizes["by columns"]) < 100, "either way round, the same content"
    assert sizes["by rows"] < 0.9 * len(lzma.compress(arrays["by rows"].tobytes()))


# --- damage ---------------------------------------------------------------------------------------


def truncate(path):
    path.write_bytes(path.read_bytes()[:-30])


def edit_npz(path):
    path.write_bytes(npz_bytes({**npz_arrays(path.read_bytes()), "loss": np.zeros(2)}))


def drop_key(path):
    path.write_text(
        json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "unit"})
    )


def drop_runs(path):
    content = json.loads(path.read_text())
    del content["parts"][OUTCOMES]["runs"]
    path.write_text(json.dumps(content))


DAMAGE = {
    "truncated json": (".json", truncate),
    "empty json": (".json", lambda path: path.write_bytes(b"")),
    "merge conflict": (".json", lambda path: path.write_text("<<<<<<< HEAD\n" + path.read_text())),
    "not text": (".json", lambda path: path.write_bytes(b"\xff\xfe\x00")),
    "a list": (".json", lambda path: path.write_text("[]")),
    "key missing": (".json", drop_key),
    "key of a part missing": (".json", drop_runs),
    "truncated npz": (".npz", truncate),
    "hand-edited npz": (".npz", edit_npz),
    "npz missing": (".npz", lambda path: path.unlink()),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_and_set_aside(kind, folders):
    suffix, damage = DAMAGE[kind]
    path = save(example())
    damaged = path if suffix == ".json" else npz(path)
    damage(damaged)
    with pytest.raises(ResultDamaged) as caught:
        load(KEY, command="headprune reproduce one_head")
    message = str(caught.value)
    assert message.startswith(f"{damaged} is damaged")
    assert "reviews.m.json.damaged-1" in message
    assert message.endswith("measured again by: headprune reproduce one_head")
    left = names(folders / "results")
    assert left == ["reviews.m.json.damaged-1"] + ["reviews.m.outcomes.npz.damaged-1"] * (
        kind != "npz missing"
    )
    with pytest.raises(FileNotFoundError):
        load(KEY)


def test_a_second_damage_gets_its_own_number(folders):
    for number in (1, 2):
        truncate(save(example()))
        with pytest.raises(ResultDamaged, match=f"damaged-{number}"):
            load(KEY)
    assert len(names(folders / "results")) == 4


@pytest.mark.parametrize("step", ["fsync of npz", "fsync of json", "replace npz", "replace json"])
def test_a_failed_write_leaves_the_old_pair(step, monkeypatch, folders):
    path = save(example())
    before = path.read_bytes(), npz(path).read_bytes()
    name, which = step.split()[0], 1 if step.endswith("npz") else 2
    real, calls = getattr(os, name), []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) == which:
            raise OSError(28, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(files.os, name, failing)
    with pytest.raises(OSError, match="No space left"):
        save(example(raw={"right": np.ones(3)}, dataset="other"))
    assert len(calls) == which, "the failure must have been reached"
    assert (path.read_bytes(), npz(path).read_bytes()) == before
    assert names(folders / "results") == ["reviews.m.json", "reviews.m.outcomes.npz"]
    assert load(KEY).dataset == "d"


def test_a_failed_first_write_leaves_nothing(monkeypatch, folders):
    real, calls = os.replace, []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(files.os, "replace", failing)
    with pytest.raises(KeyboardInterrupt):
        save(example())
    assert names(folders) == []


# --- obtain ---------------------------------------------------------------------------------------


class Measure:
    """Counts what it measures and how often it summarises."""

    def __init__(self):
        self.measured, self.summarised = [], 0

    def measure(self, name):
        self.measured.append(name)
        raw = {"right": np.array([1, 0, 1])}
        found = Measured(raw, [{"seed": 0, "rate": 1 / 3}], "d", 3, "accuracy", "fraction")
        return found, provenance("headprune reproduce one_head", 1.0)

    def summarise(self, outcomes, runs):
        self.summarised += 1
        return {
            name: {"accuracy": raw["right"].mean(), "rate": runs[name][0]["rate"] * 3}
            for name, raw in outcomes.items()
        }

    def obtain(self, signatures=None, statistics="a", **options):
        wanted = Wanted(
            KEY,
            "default",
            signatures or {OUTCOMES: SIGNATURE},
            statistics,
            self.measure,
            self.summarise,
            "headprune reproduce one_head",
        )
        return obtain(wanted, **options)

    @property
    def counts(self):
        return len(self.measured), self.summarised


def signed(version=1, parameters=None, **own):
    return make_signature(version, parameters or {}, own, {}, {}, {})


def test_obtain_measures_once_per_signature():
    m = Measure()
    first = m.obtain()
    assert m.counts == (1, 1)
    assert first.values == {OUTCOMES: {"accuracy": 0.666667, "rate": 0.999999}}
    assert first.provenance["command"] == "headprune reproduce one_head"
    assert m.obtain().to_json() == first.to_json() and m.counts == (1, 1)
    other = {OUTCOMES: signed(2)}
    assert m.obtain(other).parts[OUTCOMES].signature == other[OUTCOMES] and m.counts == (2, 2)
    m.obtain(other, fresh=True)
    assert m.counts == (3, 3)


def test_a_part_measured_again_keeps_the_date_of_the_first():
    m = Measure()
    first = m.obtain().provenance
    assert "first_measured" not in first
    for number in (2, 3):  # however often, and also where the signature changed
        again = m.obtain({OUTCOMES: signed(number)}, fresh=True).provenance
        assert again["first_measured"] == first["date"]


def test_a_new_part_leaves_the_others_alone():
    m = Measure()
    two = {"importance": signed(order=1), "random": signed(order=2)}
    before = m.obtain(two)
    after = m.obtain({"confidence": signed(order=3)})
    assert m.measured == ["importance", "random", "confidence"]
    assert set(after.values) == {"importance", "random", "confidence"}
    for name in two:
        assert after.parts[name].provenance == before.parts[name].provenance
        assert after.values[name] == before.values[name]
    m.obtain({**two, "importance": signed(order=4)})
    assert m.measured[3:] == ["importance"], "the stale one alone"
    assert set(m.obtain(two, fresh=True).parts) == {"importance", "random", "confidence"}
    assert m.measured[4:] == ["importance", "random"], "the ones that are asked for"


def test_what_another_process_stored_meanwhile_stays():
    m, other = Measure(), Measure()
    measure = m.measure

    def slow(name):
        other.obtain({"importance": signed(order=1)})
        return measure(name)

    m.measure = slow
    assert set(m.obtain({"random": signed(order=2)}).parts) == {"importance", "random"}
    assert set(m.obtain({"random": signed(order=2)}, fresh=True).parts) == {"importance", "random"}
    assert (m.measured, other.measured) == (["random"] * 2, ["importance"])


def test_parts_of_other_examples_go():
    m = Measure()
    m.obtain({"importance": signed(parameters={"n": 10}), "random": signed(parameters={"n": 10})})
    after = m.obtain({"importance": signed(parameters={"n": 20})})
    assert list(after.parts) == ["importance"], "they cannot be compared, example by example"


def test_new_statistics_need_no_new_measurement():
    m = Measure()
    before = m.obtain()
    after = m.obtain(statistics="b")
    assert m.counts == (1, 2)
    assert after.statistics == "b" and after.values == before.values, "runs are read as they were"
    assert after.provenance == before.provenance
    assert m.obtain(statistics="b").statistics == "b" and m.counts == (1, 2)


def test_a_changed_constant_changes_the_fingerprint():
    @dataclasses.dataclass(frozen=True)
    class Constants:
        delta: float = 0.01
        resamples: int = 1000

    first = fingerprint("one_head", Constants())
    assert first == fingerprint("one_head", Constants(0.01, 1000))
    assert (
        len(
            {
                first,
                fingerprint("one_head", Constants(0.02)),
                fingerprint("speed", Constants()),
                fingerprint("one_head", Constants(resamples=2000)),
            }
        )
        == 4
    )


@pytest.mark.parametrize("suffix", [".json", ".outcomes.npz"])
def test_obtain_warns_of_damage_and_measures_again(suffix, folders):
    m = Measure()
    m.obtain()
    truncate(folders / "results" / "one_head" / f"reviews.m{suffix}")
    with pytest.warns(UserWarning, match=f"reviews.m{suffix} is damaged"):
        m.obtain()
    assert m.counts == (2, 2)
    assert "reviews.m.outcomes.npz.damaged-1" in names(folders / "results")
    assert m.obtain() and m.counts == (2, 2)


def test_a_root_of_its_own_leaves_the_committed_result_alone(folders):
    m = Measure()
    m.obtain()
    before = KEY.path().read_bytes()
    own = {OUTCOMES: signed(seed=7)}
    assert m.obtain(own, root=folders / "own").parts[OUTCOMES].signature == own[OUTCOMES]
    assert KEY.path().read_bytes() == before


# --- journal --------------------------------------------------------------------------------------


def test_a_journal_unit_is_computed_once(tmp_path):
    calls = []

    def compute():
        calls.append(1)
        return {"x": [1.5, 2.5]}

    key = "seed 0/layer 3: é"
    fresh = Journal(tmp_path / "j").unit(key, compute)
    resumed = Journal(tmp_path / "j")
    assert resumed.done(key) and not resumed.done("another")
    again = resumed.unit(key, compute)
    np.testing.assert_array_equal(fresh["x"], again["x"])
    assert list(again) == ["x"] and len(calls) == 1 and resumed.resumed_seconds > 0
    resumed.finish()
    resumed.finish()
    assert not (tmp_path / "j").exists()


def test_seconds_count_once_and_only_those_of_earlier_processes(tmp_path):
    slow, other = Journal(tmp_path), Journal(tmp_path)
    for _ in range(2):
        slow.unit("a", lambda: {"x": np.full(1, time.sleep(0.05) is None)})
    assert slow.resumed_seconds == 0
    other.unit("a", dict)
    once = other.resumed_seconds
    other.unit("a", dict)
    assert other.resumed_seconds == once >= 0.05


def test_a_damaged_unit_is_measured_again(tmp_path):
    journal = Journal(tmp_path)
    journal.unit("a", lambda: {"x": np.arange(50)})
    truncate(tmp_path / "a.npz")
    with pytest.warns(UserWarning, match="a.npz is damaged.*this unit is measured again"):
        arrays = journal.unit("a", lambda: {"x": np.arange(3)})
    np.testing.assert_array_equal(arrays["x"], np.arange(3))
    assert names(tmp_path) == ["a.npz", "a.npz.damaged-1"]


def test_a_unit_is_given_though_another_run_removes_the_journal_meanwhile(tmp_path):
    journal, other = Journal(tmp_path / "j"), Journal(tmp_path / "j")
    journal.unit("a", lambda: {"x": np.ones(1)})

    def gone(*_, **__):
        other.finish()
        raise FileNotFoundError("the folder of the file")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.open", gone)
        assert journal.unit("b", lambda: {"x": np.zeros(1)})["x"] == 0
    assert not (tmp_path / "j").exists()


def test_a_failing_unit_keeps_the_others(tmp_path):
    journal = Journal(tmp_path)
    journal.unit("a", lambda: {"x": np.zeros(1)})
    with pytest.raises(ZeroDivisionError):
        journal.unit("b", lambda: {"x": 1 / 0})
    assert names(tmp_path) == ["a.npz"]


LONG = """
import sys, time
import numpy as np
from pathlib import Path
from headprune_lib.replication.engine import run_units
from headprune_lib.replication.store import Journal

log, wait, folder = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])

def unit(i):
    with open(log, "a") as file:
        file.write(f"start {i}\\n")
    time.sleep(wait)
    return {"loss": np.random.default_rng(i).normal(size=5)}

found = run_units({f"head {i}": lambda i=i: unit(i) for i in range(8)}, Journal(folder), "heads")
np.save(folder.parent / "found.npy", np.stack([one["loss"] for one in found.values()]))
"""


@pytest.mark.slow
def test_killed_units_resume_and_end_with_the_same_outcomes(tmp_path):
    def start(name, wait):
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(paths.project_root()),
        }
        (tmp_path / name).mkdir(exist_ok=True)
        return subprocess.Popen(
            [
                sys.executable,
                "-c",
                LONG,
                str(tmp_path / name / "log"),
                str(wait),
                str(tmp_path / name / "journal"),
            ],
            env=environment,
        )

    def started(name):
        log = tmp_path / name / "log"
        return log.read_text().splitlines() if log.exists() else []

    whole, killed = start("whole", 0.0), start("killed", 0.2)
    deadline = time.monotonic() + 60
    while len(started("killed")) < 5 and time.monotonic() < deadline:
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait(30) == -signal.SIGKILL and whole.wait(60) == 0
    assert not (tmp_path / "killed" / "found.npy").exists()
    assert 5 <= len(started("killed")) < 8, "must have been killed in the middle"

    assert start("killed", 0.0).wait(60) == 0
    assert len(started("whole")) == 8
    assert len(started("killed")) <= 9, "only the unit in flight may run twice"
    assert set(started("killed")) == set(started("whole"))
    found = [np.load(tmp_path / name / "found.npy") for name in ("killed", "whole")]
    np.testing.assert_array_equal(*found)
    assert Journal(tmp_path / "killed" / "journal").unit("head 0", dict).keys() == {"loss"}


def test_replace_files_makes_folders(tmp_path):
    replace_files({tmp_path / "a" / "b" / "c": b"x"})
    assert (tmp_path / "a" / "b" / "c").read_bytes() == b"x" and names(tmp_path) == ["c"]


# --- several processes ----------------------------------------------------------------------------


def hold(path, ready):
    with locked(path):
        ready.set()
        time.sleep(600)


def test_a_killed_process_leaves_no_lock_behind(tmp_path):
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    process = context.Process(target=hold, args=(tmp_path / "file", ready))
    process.start()
    assert ready.wait(60)
    lock = FileLock(tmp_path / ".file.lock")
    with pytest.raises(Timeout):
        lock.acquire(timeout=0)
    process.kill()
    process.join()
    with locked(tmp_path / "file"), locked(tmp_path / "file"):
        assert not lock.is_locked
    with lock.acquire(timeout=0):
        pass


def test_a_part_stored_while_values_are_computed_is_kept():
    """Another command stores its own part between reading the result again and saving it."""
    slow, other = Measure(), Measure()
    started = threading.Event()
    summarise = slow.summarise

    def slowly(outcomes, runs):
        started.set()
        time.sleep(0.3)
        return summarise(outcomes, runs)

    slow.summarise = slowly
    first = threading.Thread(target=slow.obtain, args=({"a": signed(order="a")},))
    first.start()
    assert started.wait(60)
    other.obtain({"b": signed(order="b")})
    first.join()
    assert set(load(KEY).parts) == set(load(KEY).values) == {"a", "b"}


def test_a_result_that_is_being_written_is_not_taken_for_damaged(monkeypatch, folders):
    save(example())
    half, replace = threading.Event(), os.replace

    def slowly(*arguments):
        replace(*arguments)
        if not half.is_set():  # the outcomes are new, the JSON file is not
            half.set()
            time.sleep(0.3)

    changed = example({"right": np.zeros((2, 2), np.int8)})
    monkeypatch.setattr(files.os, "replace", slowly)
    writer = threading.Thread(target=save, args=(changed,))
    writer.start()
    assert half.wait(60)
    found = load(KEY)
    writer.join()
    assert found.raw["right"].sum() == 0
    assert names(folders / "results") == ["reviews.m.json", "reviews.m.outcomes.npz"]


# --- paths ----------------------------------------------------------------------------------------


def test_paths_follow_the_environment(monkeypatch, tmp_path):
    for name, function in [
        ("RESULTS", paths.results_root),
        ("CACHE", paths.cache_root),
        ("MODELS", paths.models_root),
    ]:
        monkeypatch.setenv(f"HEADPRUNE_{name}", str(tmp_path))
        assert function() == tmp_path
        monkeypatch.setenv(f"HEADPRUNE_{name}", "")
        assert function() != tmp_path and function().is_absolute()
    monkeypatch.chdir(tmp_path)
    assert (paths.project_root() / "headprune_lib").is_dir()
    assert paths.reference_root() == paths.project_root() / "data" / "reference"
