"""Result files: readable, reproducible to the byte, and never lost to a kill or a damaged disk."""

import dataclasses
import json
import lzma
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headprune_lib import journal as journal_module
from headprune_lib import paths, results
from headprune_lib.journal import Journal, npz_arrays, npz_bytes, replace_files
from headprune_lib.results import Measurement, Result, ResultDamaged, load, make_signature, save

SIGNATURE = make_signature(1, {"lr": 2.00000001e-5, "seeds": (0, 1)}, {"a.csv": "00"},
                           {"model": "11"}, {"epochs": 3})


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def example(**changes):
    record = {"kind": "self", "layer": 0, "head": 1, "delta": -0.012345678, "interval": (-0.1, 0.2)}
    content = {
        "artifact": "figure1b", "profile": "default", "task": "reviews", "model": "m",
        "dataset": "d", "n_examples": 2, "metric": "accuracy", "unit": "fraction",
        "runs": [{"seed": 0, "loss": float("nan")}],
        "values": {"heads": [record, record], "counts": {"heads": np.int64(2)},
                "curve": {"mean": np.linspace(0, 1, 4), "interval": [[0.0, 1.0], [0.5, 1.0]]}},
        "signature": SIGNATURE, "provenance": {"seconds": 1.0},
        "raw": {"right": np.array([[1, 0], [1, 1]], np.int8), "loss": np.array([0.1, np.inf])}}
    return Result(**{**content, **changes})


def names(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


# --- text -----------------------------------------------------------------------------------------


def test_json_is_laid_out_for_diffs():
    text = example().to_json()
    lines = [line.strip().rstrip(",") for line in text.splitlines()]
    record = ('{"delta": -0.0123457, "head": 1, "interval": [-0.1, 0.2], "kind": "self", '
              '"layer": 0}')
    assert lines.count(record) == 2
    assert '"mean": [0.0, 0.333333, 0.666667, 1.0]' in lines
    assert '{"loss": null, "seed": 0}' in lines, "NaN must not reach strict JSON"
    assert text.endswith("}\n") and '"raw"' not in text
    keys = list(json.loads(text))
    assert keys == sorted(keys)
    assert json.loads(text)["signature"]["parameters"]["lr"] == 2.00000001e-5, "as it was hashed"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_subnormal=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(json_values)
def test_layout_is_strict_json_and_shortening_happens_once(value):
    short = results.plain(value)
    text = results._layout(short)

    def reject(word):
        raise AssertionError(f"{word} is not JSON")

    assert json.loads(text, parse_constant=reject) == short
    assert results._layout(results.plain(json.loads(text))) == text


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300))
def test_six_digits_survive_a_round_trip(number):
    assert results.plain(number) == pytest.approx(number, rel=5.1e-6, abs=1e-320)
    assert results.plain(json.loads(json.dumps(results.plain(number)))) == results.plain(number)


def test_a_value_json_cannot_hold_is_named():
    with pytest.raises(TypeError, match=r"values\.paths\[1\] is a PosixPath"):
        example(values={"paths": [1, paths.project_root()]}).to_json()


# --- signature and provenance ---------------------------------------------------------------------


def test_signature_ignores_order_and_sees_every_part():
    def make(version=1, lr=1e-3, data="a", weights="b", recipe=None):
        return make_signature(version, {"x": 1, "lr": lr}, {"f": data}, {"w": weights},
                              recipe or {"epochs": 3})["digest"]

    assert make() == make_signature(1, {"lr": 1e-3, "x": 1}, {"f": "a"}, {"w": "b"},
                                    {"epochs": 3})["digest"]
    changed = [make(version=2), make(lr=2e-3), make(data="z"), make(weights="z"),
               make(recipe={"epochs": 4})]
    assert len({make(), *changed}) == 6
    assert SIGNATURE == json.loads(json.dumps(SIGNATURE)), "must equal itself when read back"


@pytest.mark.parametrize("bad", [float("nan"), np.float32(1), {1, 2}])
def test_signature_rejects_what_has_no_one_spelling(bad):
    with pytest.raises(ValueError, match="finite numbers"):
        make_signature(1, {"x": bad}, {}, {}, {})


def test_provenance_names_versions_and_hardware():
    found = results.provenance("headprune reproduce figure1b", {"seed0": "ab"}, 12.3456)
    assert set(found["packages"]) == {"torch", "transformers", "numpy", "scipy", "tokenizers"}
    assert found["hardware"]["cores"] >= 1 and found["hardware"]["cpu"]
    assert found["seconds"] == 12.3 and found["weights_sha256"] == {"seed0": "ab"}
    assert "command" in found and found["date"].endswith("+00:00")


# --- store ----------------------------------------------------------------------------------------


def test_save_and_load_round_trip(folders):
    path = save(example())
    assert path == folders / "results" / "default" / "figure1b.json"
    back = load("figure1b", "default")
    assert back.signature == SIGNATURE
    assert back.values["heads"][0]["interval"] == [-0.1, 0.2]
    assert back.runs == [{"seed": 0, "loss": None}]
    for name, array in example().raw.items():
        np.testing.assert_array_equal(back.raw[name], array)
        assert back.raw[name].dtype == array.dtype
    assert back.to_json() == path.read_text() == dataclasses.replace(back).to_json()
    assert load("figure1b", "default", "reviews").to_json() == back.to_json()


def test_another_task_has_its_own_file(folders):
    save(example())
    assert save(example(task="tweets")).name == "figure1b.tweets.json"
    assert load("figure1b", "default", "tweets").task == "tweets"
    assert names(folders / "results") == ["figure1b.json", "figure1b.npz", "figure1b.tweets.json",
                                          "figure1b.tweets.npz"]


def test_a_missing_result_names_the_command():
    with pytest.raises(FileNotFoundError,
                       match="headprune reproduce table3 --profile default$"):
        load("table3", "default")
    with pytest.raises(FileNotFoundError, match="--profile default --task tweets$"):
        load("table3", "default", "tweets")


def test_bytes_do_not_depend_on_clock_or_order(monkeypatch):
    path = save(example())
    first = path.read_bytes(), path.with_suffix(".npz").read_bytes()
    before = path.stat().st_mtime_ns
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 1e7)
    raw = example().raw
    save(example(raw={name: np.asfortranarray(raw[name]) for name in reversed(raw)}))
    assert (path.read_bytes(), path.with_suffix(".npz").read_bytes()) == first
    assert path.stat().st_mtime_ns == before, "a file that already holds its content is left alone"


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_no_npz(content):
    with pytest.raises(ValueError, match="not a readable .npz"):
        npz_arrays(content)


def test_npz_keeps_scalars_empties_and_text_and_refuses_objects():
    arrays = {"scalar": np.array(3.5), "none": np.zeros((0, 4)), "text": np.array(["a", "bé"])}
    back = npz_arrays(npz_bytes(arrays))
    assert {k: (v.shape, v.dtype) for k, v in back.items()} == {
        k: (v.shape, v.dtype) for k, v in arrays.items()}
    assert npz_arrays(npz_bytes({})) == {}
    with pytest.raises(ValueError, match="Object arrays"):
        npz_bytes({"o": np.array([object()])})


def test_npz_takes_the_smallest_way_of_each_array_and_reads_back_by_rows():
    rng = np.random.default_rng(0)
    # Right or wrong under 60 masks: few examples change from one mask to the next.
    outcomes = (rng.random(2000) < 0.7) ^ (rng.random((60, 2000)) < 0.01)
    arrays = {"by rows": outcomes.T.copy(), "by columns": outcomes, "noise": rng.normal(size=(9, 9))}
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
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items()
                                if k != "unit"}))


DAMAGE = {
    "truncated json": (".json", truncate),
    "empty json": (".json", lambda path: path.write_bytes(b"")),
    "merge conflict": (".json", lambda path: path.write_text("<<<<<<< HEAD\n" + path.read_text())),
    "not text": (".json", lambda path: path.write_bytes(b"\xff\xfe\x00")),
    "a list": (".json", lambda path: path.write_text("[]")),
    "key missing": (".json", drop_key),
    "truncated npz": (".npz", truncate),
    "hand-edited npz": (".npz", edit_npz),
    "npz missing": (".npz", lambda path: path.unlink()),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_and_set_aside(kind, folders):
    suffix, damage = DAMAGE[kind]
    path = save(example())
    damage(path.with_suffix(suffix))
    with pytest.raises(ResultDamaged) as caught:
        load("figure1b", "default")
    message = str(caught.value)
    assert message.startswith(f"{path.with_suffix(suffix)} is damaged")
    assert "figure1b.json.damaged-1" in message and "measured again" in message
    left = names(folders / "results")
    assert left == ["figure1b.json.damaged-1"] + ["figure1b.npz.damaged-1"] * (
        kind != "npz missing")
    with pytest.raises(FileNotFoundError):
        load("figure1b", "default")


def test_a_second_damage_gets_its_own_number(folders):
    for number in (1, 2):
        truncate(save(example()))
        with pytest.raises(ResultDamaged, match=f"damaged-{number}"):
            load("figure1b", "default")
    assert len(names(folders / "results")) == 4


@pytest.mark.parametrize("step", ["fsync of npz", "fsync of json", "replace npz", "replace json"])
def test_a_failed_write_leaves_the_old_pair(step, monkeypatch, folders):
    path = save(example())
    before = path.read_bytes(), path.with_suffix(".npz").read_bytes()
    name, which = step.split()[0], 1 if step.endswith("npz") else 2
    real, calls = getattr(os, name), []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) == which:
            raise OSError(28, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(journal_module.os, name, failing)
    with pytest.raises(OSError, match="No space left"):
        save(example(raw={"right": np.ones(3)}, model="other"))
    assert len(calls) == which, "the failure must have been reached"
    assert (path.read_bytes(), path.with_suffix(".npz").read_bytes()) == before
    assert names(folders / "results") == ["figure1b.json", "figure1b.npz"]
    assert load("figure1b", "default").model == "m"


def test_a_failed_first_write_leaves_nothing(monkeypatch, folders):
    real, calls = os.replace, []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(journal_module.os, "replace", failing)
    with pytest.raises(KeyboardInterrupt):
        save(example())
    assert names(folders) == []


# --- obtain ---------------------------------------------------------------------------------------


class Measure:
    """Counts how often it measures and summarises."""

    def __init__(self):
        self.measured = self.summarised = 0

    def measure(self, journal):
        self.measured += 1
        raw = journal.unit("only", lambda: {"right": np.array([1, 0, 1])})
        return Measurement(raw, [{"seed": 0, "rate": 1 / 3}], "m", "d", 3, "accuracy", "fraction")

    def summarise(self, raw, runs):
        self.summarised += 1
        return {"accuracy": raw["right"].mean(), "rate": runs[0]["rate"] * 3}

    def obtain(self, digest=SIGNATURE, statistics=1, **options):
        return results.obtain("figure1b", "default", "reviews", digest, statistics, self.measure,
                              self.summarise, **options)

    @property
    def counts(self):
        return self.measured, self.summarised


def test_obtain_measures_once_per_signature(folders):
    m = Measure()
    first = m.obtain(command="headprune reproduce figure1b")
    assert m.counts == (1, 1) and first.values == {"accuracy": 0.666667, "rate": 0.999999}
    assert first.provenance["command"] == "headprune reproduce figure1b"
    assert m.obtain().to_json() == first.to_json() and m.counts == (1, 1)
    other = make_signature(2, {}, {}, {}, {})
    assert m.obtain(other).signature == other and m.counts == (2, 2)
    m.obtain(other, fresh=True)
    assert m.counts == (3, 3)
    assert names(folders / "cache") == [], "a finished journal is removed"


def test_new_statistics_need_no_new_measurement():
    m = Measure()
    before = m.obtain()
    after = m.obtain(statistics=2)
    assert m.counts == (1, 2)
    assert after.statistics == 2 and after.values == before.values, "runs are read as they were"
    assert after.provenance == before.provenance
    assert m.obtain(statistics=2).statistics == 2 and m.counts == (1, 2)


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_obtain_warns_of_damage_and_measures_again(suffix, folders):
    m = Measure()
    m.obtain()
    truncate(folders / "results" / "default" / f"figure1b{suffix}")
    with pytest.warns(UserWarning, match=f"figure1b{suffix} is damaged"):
        m.obtain()
    assert m.counts == (2, 2)
    assert "figure1b.npz.damaged-1" in names(folders / "results")
    assert m.obtain() and m.counts == (2, 2)


def test_a_root_of_its_own_leaves_the_committed_result_alone(folders):
    m = Measure()
    m.obtain()
    before = (folders / "results" / "default" / "figure1b.json").read_bytes()
    own = make_signature(1, {"seed": 7}, {}, {}, {})
    assert m.obtain(own, root=folders / "own").signature == own
    assert (folders / "results" / "default" / "figure1b.json").read_bytes() == before


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


def test_a_damaged_unit_is_measured_again(tmp_path):
    journal = Journal(tmp_path)
    journal.unit("a", lambda: {"x": np.arange(50)})
    truncate(tmp_path / "a.npz")
    with pytest.warns(UserWarning, match="a.npz is damaged.*this unit is measured again"):
        arrays = journal.unit("a", lambda: {"x": np.arange(3)})
    np.testing.assert_array_equal(arrays["x"], np.arange(3))
    assert names(tmp_path) == ["a.npz", "a.npz.damaged-1"]


def test_a_failing_unit_keeps_the_others(tmp_path):
    journal = Journal(tmp_path)
    journal.unit("a", lambda: {"x": np.zeros(1)})
    with pytest.raises(ZeroDivisionError):
        journal.unit("b", lambda: {"x": 1 / 0})
    assert names(tmp_path) == ["a.npz"]


LONG = '''
import sys, time
import numpy as np
from headprune_lib import results

log, wait = sys.argv[1], float(sys.argv[2])

def measure(journal):
    def unit(i):
        with open(log, "a") as file:
            file.write(f"start {i}\\n")
        time.sleep(wait)
        return {"loss": np.random.default_rng(i).normal(size=5)}
    found = [journal.unit(f"head {i}", lambda: unit(i))["loss"] for i in range(8)]
    return results.Measurement({"loss": np.stack(found)}, [{"seed": 0}], "m", "d", 5, "loss", "nat")

results.obtain("figure1b", "default", "reviews", results.make_signature(1, {}, {}, {}, {}), 1,
               measure, lambda raw, runs: {"mean": raw["loss"].mean(1)})
'''


def test_a_killed_measurement_resumes_and_ends_with_the_same_files(tmp_path):
    def start(name, wait):
        environment = {**os.environ, "HEADPRUNE_RESULTS": str(tmp_path / name / "results"),
                       "HEADPRUNE_CACHE": str(tmp_path / name / "cache"), "OMP_NUM_THREADS": "1",
                       "PYTHONPATH": str(paths.project_root())}
        (tmp_path / name).mkdir(exist_ok=True)
        return subprocess.Popen([sys.executable, "-c", LONG, str(tmp_path / name / "log"),
                                 str(wait)], env=environment)

    def started(name):
        log = tmp_path / name / "log"
        return log.read_text().splitlines() if log.exists() else []

    whole, killed = start("whole", 0.0), start("killed", 0.2)
    deadline = time.monotonic() + 60
    while len(started("killed")) < 5 and time.monotonic() < deadline:
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait(30) == -signal.SIGKILL and whole.wait(60) == 0
    assert not (tmp_path / "killed" / "results").exists()
    interrupted = len(started("killed"))
    assert 5 <= interrupted < 8, "must have been killed in the middle"

    assert start("killed", 0.0).wait(60) == 0
    assert len(started("whole")) == 8
    assert len(started("killed")) <= 9, "only the unit in flight may run twice"
    assert set(started("killed")) == set(started("whole"))

    def files(name):
        folder = tmp_path / name / "results" / "default"
        assert names(folder) == ["figure1b.json", "figure1b.npz"]
        lines = (folder / "figure1b.json").read_text().splitlines()
        return ([line for line in lines if '"seconds"' not in line and '"date"' not in line],
                (folder / "figure1b.npz").read_bytes())

    assert files("killed") == files("whole")
    assert names(tmp_path / "killed" / "cache") == []
    seconds = json.loads((tmp_path / "killed" / "results" / "default" / "figure1b.json")
                         .read_text())["provenance"]["seconds"]
    assert seconds >= 0.8, "the time of the killed process counts too"


def test_replace_files_makes_folders(tmp_path):
    replace_files({tmp_path / "a" / "b" / "c": b"x"})
    assert (tmp_path / "a" / "b" / "c").read_bytes() == b"x" and names(tmp_path) == ["c"]


# --- paths ----------------------------------------------------------------------------------------


def test_paths_follow_the_environment(monkeypatch, tmp_path):
    for name, function in [("RESULTS", paths.results_root), ("CACHE", paths.cache_root),
                           ("MODELS", paths.models_root)]:
        monkeypatch.setenv(f"HEADPRUNE_{name}", str(tmp_path))
        assert function() == tmp_path
        monkeypatch.setenv(f"HEADPRUNE_{name}", "")
        assert function() != tmp_path and function().is_absolute()
    monkeypatch.chdir(tmp_path)
    assert (paths.project_root() / "headprune_lib").is_dir()
    assert paths.reference_root() == paths.project_root() / "data" / "reference"
