"""Result files: readable, reproducible to the byte, and never lost to a kill or a damaged disk."""

import dataclasses
import json
import os
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headprune_lib.replication import store
from headprune_lib.replication.store import OUTCOMES, Key
from headprune_lib.replication.store.files import npz_arrays, npz_bytes
from headprune_lib.replication.store.packing import joined

KEY = Key("one_head", "reviews", "m")
INPUTS = {
    "version": 1,
    "parameters": {"lr": 2.00000001e-5, "seeds": (0, 1)},
    "own": {"order": "random"},
    "data": {"a.csv": "00"},
    "weights": {"model": "11"},
    "recipe": {"epochs": 3},
}


SIGNATURE = store.make_signature(*INPUTS.values())
RAW = {"right": np.array([[1, 0], [1, 1]], np.int8), "loss": np.array([0.1, np.inf])}


pytestmark = pytest.mark.usefixtures("elsewhere")


def part(raw):
    runs = [{"seed": 0, "loss": float("nan")}]
    return store.Part(SIGNATURE, runs, {"seconds": 1.0, "date": "2026"}, raw)


def example(raw=RAW, **changes):
    record = {"kind": "self", "layer": 0, "head": 1, "delta": -0.012345678, "interval": (-0.1, 0.2)}
    curve = {"mean": np.linspace(0, 1, 4), "interval": [[0.0, 1.0], [0.5, 1.0]]}
    values = {"heads": [record, record], "counts": {"heads": np.int64(2)}, "curve": curve}
    names_and_sizes = (*KEY, "default", "d", 2, "accuracy", "fraction")
    result = store.Result(*names_and_sizes, values, "ab12", {OUTCOMES: part(raw)})
    return dataclasses.replace(result, **changes)


def names(folder):
    """Files in a folder, without the locks, which stay."""
    files = sorted(path.name for path in folder.rglob("*") if path.is_file())
    return [name for name in files if not name.endswith(".lock")]


def npz(path):
    return path.with_name(f"{path.stem}.{OUTCOMES}.npz")


def truncate(path):
    path.write_bytes(path.read_bytes()[:-30])


# --- text and signatures -----------------------------------------------------------------


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_subnormal=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(max_examples=30)
@given(json_values)
def test_layout_is_strict_json_and_shortening_happens_once(value):
    short = store.plain(value)
    laid_out = store.results.layout(short)

    def reject(word):
        raise AssertionError(f"{word} is not JSON")

    assert json.loads(laid_out, parse_constant=reject) == short
    assert store.results.layout(store.plain(json.loads(laid_out))) == laid_out


def test_a_signature_ignores_order_and_sees_every_part():
    changes = {name: {**given, "new": 1} for name, given in INPUTS.items() if name != "version"}
    changes["version"] = 2
    digests = {
        store.make_signature(*{**INPUTS, name: changes[name]}.values())["digest"]
        for name in changes
    }
    assert len(digests | {SIGNATURE["digest"]}) == 1 + len(INPUTS)
    turned = {**INPUTS, "parameters": dict(reversed(INPUTS["parameters"].items()))}
    assert store.make_signature(*turned.values()) == SIGNATURE
    assert json.loads(json.dumps(SIGNATURE)) == SIGNATURE, "must equal itself when read back"
    for bad in (float("nan"), np.float32(1), {1, 2}):
        with pytest.raises(ValueError, match="finite numbers"):
            store.make_signature(1, {"x": bad}, {}, {}, {}, {})


# --- files ----------------------------------------------------------------------------------------


def test_what_is_saved_is_found_and_loaded(elsewhere):
    path = store.save(example())
    assert path == elsewhere / "results" / "one_head" / "reviews.m.json"
    back = store.load(KEY)
    assert back.parts[OUTCOMES].signature == SIGNATURE
    assert back.values["heads"][0]["interval"] == [-0.1, 0.2]
    assert back.parts[OUTCOMES].runs == [{"seed": 0, "loss": None}]
    for name, array in RAW.items():
        np.testing.assert_array_equal(back.raw[name], array)
        assert back.raw[name].dtype == array.dtype
    assert back.to_json() == path.read_text()
    store.save(example(task="tweets", parts={"importance": part(RAW), "random order": part({})}))
    store.save(example(measurement="speed"))
    tweets = Key("one_head", "tweets", "m")
    assert names(elsewhere / "results" / "one_head") == [
        *("reviews.m.json", "reviews.m.outcomes.npz"),
        *("tweets.m.importance.npz", "tweets.m.json", "tweets.m.random-order.npz"),
    ]
    assert store.find("one_head") == [KEY, tweets] and store.find("nothing") == []
    assert store.find() == [KEY, tweets, Key("speed", "reviews", "m")]
    assert list(store.load(tweets).parts) == ["importance", "random order"]
    with pytest.raises(FileNotFoundError, match="no stored result .*tweets.m.json$"):
        store.load(Key("table3", "tweets", "m"))
    with pytest.raises(FileNotFoundError, match="Measure it with: headprune reproduce table3$"):
        store.load(Key("table3", "reviews", "m"), command="headprune reproduce table3")


def test_bytes_do_not_depend_on_clock_or_order(monkeypatch):
    path = store.save(example())
    first, written = (path.read_bytes(), npz(path).read_bytes()), path.stat().st_mtime_ns
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 1e7)
    store.save(example(raw={name: np.asfortranarray(RAW[name]) for name in reversed(RAW)}))
    assert (path.read_bytes(), npz(path).read_bytes()) == first
    assert path.stat().st_mtime_ns == written, "a file that holds its content is left alone"


def test_arrays_of_every_kind_come_back_by_rows():
    outcomes = np.random.default_rng(0).random((60, 1000)) < 0.7
    arrays = {"by rows": outcomes.T.copy(), "by columns": outcomes}
    arrays |= {"none": np.zeros((0, 4)), "scalar": np.array(3.5), "text": np.array(["a", "bé"])}
    back = npz_arrays(npz_bytes(arrays))
    assert back.keys() == arrays.keys() and npz_arrays(npz_bytes({})) == {}
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].flags.c_contiguous
        assert (back[name].dtype, back[name].shape) == (array.dtype, array.shape)
    with pytest.raises(ValueError, match="Object arrays"):
        npz_bytes({"o": np.array([object()])})


@pytest.mark.parametrize("loss", [np.nan, np.inf])
def test_a_loss_that_is_not_finite_is_refused(loss):
    unit = {"draft_loss": np.array([[1.0, 2.0], [1.5, loss]])}
    with pytest.raises(ValueError, match="not finite. Check the translator's weights"):
        joined([unit], np.array([1, 0]))
    unit["draft_loss"][1, 1] = 3
    assert joined([unit], np.array([1, 0]))["draft_loss_change"].tolist() == [[1000, 500]]


def rewrite(change):
    def damage(path):
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return damage


DAMAGE = {
    "merge conflict": (".json", lambda path: path.write_text("<<<<<<< HEAD\n" + path.read_text())),
    "key missing": (".json", rewrite(lambda content: content.pop("unit"))),
    "no object": (".json", lambda path: path.write_text("[1, 2]")),
    "truncated npz": (".npz", truncate),
    "another npz": (".npz", lambda path: path.write_bytes(npz_bytes({"loss": RAW["loss"]}))),
    "npz missing": (".npz", lambda path: path.unlink()),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_and_set_aside(kind, elsewhere):
    suffix, damage = DAMAGE[kind]
    command = "headprune reproduce one_head"
    for number in (1, 2):
        path = store.save(example())
        damaged = path if suffix == ".json" else npz(path)
        damage(damaged)
        with pytest.raises(store.ResultDamaged) as caught:  # of outcomes when they are asked for
            getattr(store.load(KEY, command=command), "raw" if suffix == ".npz" else "values")
        message = str(caught.value)
        assert message.startswith(f"{damaged} is damaged")
        assert kind == "npz missing" or f"{damaged.name}.damaged-{number}" in message
        assert message.endswith("Measure it again with: headprune reproduce one_head")
    aside = {".json": ["reviews.m.json", "reviews.m.outcomes.npz"], ".npz": []}[suffix]
    aside += ["reviews.m.outcomes.npz"] * (kind in ("truncated npz", "another npz"))
    left = ["reviews.m.json"] * (suffix == ".npz")  # a damaged part goes alone
    wanted = [*left, *(f"{name}.damaged-{n}" for name in aside for n in (1, 2))]
    assert names(elsewhere / "results") == sorted(wanted)


def test_a_result_is_read_without_its_outcomes_and_again_when_it_changes(monkeypatch):
    path, opened = store.save(example()), []
    real = store.files.Path.read_bytes
    note = lambda self: opened.append(self.suffix) or real(self)  # noqa: E731
    monkeypatch.setattr(store.files.Path, "read_bytes", note)
    (part,) = store.load(KEY).parts.values()
    assert store.load(KEY).values["counts"] == {"heads": 2} and ".npz" not in opened
    np.testing.assert_array_equal(part.raw["right"], RAW["right"])
    assert part.raw is part.raw and opened.count(".npz") == 1
    before = store.load(KEY)
    store.save(example({"right": np.ones(3)}, dataset="other"))
    assert store.load(KEY).dataset == "other" and store.load(KEY).raw["right"].sum() == 3
    with pytest.raises(store.ResultDamaged, match="measured again since .*Read it again"):
        _ = before.raw
    assert path.exists() and npz(path).exists(), "nothing of it is damaged"


def fail(monkeypatch, name, time_, error):
    """The call of a function of ``os`` that raises an error, and the calls so far."""
    real, calls = getattr(os, name), []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) == time_:
            raise error
        return real(*arguments)

    monkeypatch.setattr(store.files.os, name, failing)
    return calls


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize(("name", "time_"), [(n, t) for n in ("fsync", "replace") for t in (1, 2)])
def test_a_failed_write_leaves_the_old_pair_or_nothing(name, time_, error, monkeypatch, elsewhere):
    with monkeypatch.context() as patch:
        calls = fail(patch, name, time_, error)
        with pytest.raises(type(error)):
            store.save(example())
    assert len(calls) == time_ and names(elsewhere) == []
    path = store.save(example())
    before = path.read_bytes(), npz(path).read_bytes()
    calls = fail(monkeypatch, name, time_, error)
    with pytest.raises(type(error)):
        store.save(example(raw={"right": np.ones(3)}, dataset="other"))
    assert len(calls) == time_, "the failure must have been reached"
    assert (path.read_bytes(), npz(path).read_bytes()) == before
    assert names(elsewhere / "results") == ["reviews.m.json", "reviews.m.outcomes.npz"]


# --- journal --------------------------------------------------------------------------------------


def test_a_journal_unit_is_computed_once_and_its_seconds_count_once(tmp_path):
    key, fresh = "seed 0/layer 3: é", {"x": np.array([1.5, 2.5])}
    first, later = store.Journal(tmp_path / "j"), store.Journal(tmp_path / "j")
    first.unit(key, lambda: time.sleep(0.05) or fresh)
    assert first.unit(key, dict).keys() == {"x"} and first.resumed_seconds == 0
    assert later.done(key) and not later.done("another")
    np.testing.assert_array_equal(later.unit(key, dict)["x"], fresh["x"])
    seconds = later.resumed_seconds
    later.unit(key, dict)
    assert later.resumed_seconds == seconds >= 0.05
    later.finish()
    assert not (tmp_path / "j").exists()


def test_a_failing_or_damaged_unit_is_measured_again_and_keeps_the_others(tmp_path):
    journal = store.Journal(tmp_path)
    journal.unit("a", lambda: {"x": np.arange(50)})
    with pytest.raises(ZeroDivisionError):
        journal.unit("b", lambda: {"x": 1 / 0})
    assert names(tmp_path) == ["a.npz"]
    truncate(tmp_path / "a.npz")
    with pytest.warns(UserWarning, match="a.npz is damaged.*and this unit is measured again"):
        arrays = journal.unit("a", lambda: {"x": np.arange(3)})
    np.testing.assert_array_equal(arrays["x"], np.arange(3))
    assert names(tmp_path) == ["a.npz", "a.npz.damaged-1"]
