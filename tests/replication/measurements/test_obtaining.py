"""From a request to a result: stored or measured, resumed, stale, refused, on which weights."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from urllib.parse import quote

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.torch import save_file

from headprune_lib import ones_mask
from headprune_lib.replication import measurements
from headprune_lib.replication.measurements import MEASUREMENTS, obtaining
from headprune_lib.replication.measurements.obtaining import results_folder
from headprune_lib.replication.measurements.removal import losses_under
from headprune_lib.replication.measurements.trained import OtherWeights, sha256_of
from headprune_lib.replication.models.encoders import file_name, recipe, weights_path
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.setups import EncoderSubject
from headprune_lib.replication.store import Journal


def signed(name, profile, half="encoder", task=None, part=None) -> str:
    """The digest of a measurement's signature, of all its parts where none is named."""
    measurement, task = MEASUREMENTS[name], task or obtaining.HALF_OF[half].task(profile)
    parts = measurement.parts(profile, half, task) if part is None else [part]
    made = [obtaining.signature(measurement, half, profile, task, each) for each in parts]
    return "".join(one["digest"] for one in made)


@pytest.fixture
def computed(monkeypatch):
    """The keys of the units that are computed, not read from a journal."""
    keys, unit = [], Journal.unit

    def noted(self, key, function):
        return unit(self, key, lambda: keys.append(key) or function())

    monkeypatch.setattr(Journal, "unit", noted)
    return keys


# --- stored, or measured now ------------------------------------------------------------------------


def test_a_second_call_reads_what_the_first_stored_and_other_numbers_lie_elsewhere(smoke, computed):
    first = measurements.get("figure1b", smoke).to_json()
    computed.clear()
    assert measurements.get("figure1b", smoke).to_json() == first and not computed
    few = measurements.get("figure1b", load_profile("smoke", n_examples=20))
    assert few.n_examples == 20
    assert measurements.get("figure1b", smoke).to_json() == first
    for artifact in ("figure3b", "figure6b"):  # the paper's names for one measurement
        measurements.get(artifact, smoke, parts=["importance"])
    listed = measurements.found("figure3b", "figure6b", root=results_folder(smoke))
    assert {(one.measurement, one.task) for one in listed} == {
        ("pruning_curve", "synthetic"),
        ("pruning_curve", "synthetic-words"),
    }
    assert measurements.found("table5", root=results_folder(smoke) / "nothing") == []


def test_an_order_that_nobody_asked_for_before_leaves_the_others_alone(smoke, computed):
    task = smoke.on("synthetic-words")  # importance and random orders alone
    before = measurements.get("pruning_curve", task)
    computed.clear()
    after = measurements.get("pruning_curve", task, parts=["importance reversed"])
    assert set(after.parts) == {*before.parts, "importance reversed"}
    assert not any("importance step" in key or "random" in key for key in computed)
    for name, part in before.parts.items():
        assert after.parts[name].raw_sha256 == part.raw_sha256
        assert after.values["curves"][name] == before.values["curves"][name]
    assert set(measurements.get("pruning_curve", task).parts) == set(after.parts)


def test_measurements_share_their_passes_and_the_same_mask_on_other_text_is_another(
    computed, smoke, tmp_path
):
    profile = load_profile("smoke", n_examples=24)
    measurements.get("across_domains", profile)  # asks for one_head itself
    measurements.get("pruning_curve", profile, parts=["importance", "oracle", "oracle leak-free"])
    measurements.get("one_head", profile)
    sweeps = [key.split(" ", 1)[1] for key in computed if "one head" in key]
    texts = ("synthetic", "synthetic-far", "synthetic (train)")
    assert sorted(sweeps) == sorted(f"one head {text} 0" for text in texts)
    assert len(computed) == len({*computed})
    subject, journal = EncoderSubject.of(smoke), Journal(tmp_path)
    here, there, again = (
        losses_under(subject, [ones_mask(subject.model)], text, journal)
        for text in (subject.test, subject.selection, subject.test)
    )
    assert (here.shape, there.shape) == ((1, len(subject.test)), (1, len(subject.selection)))
    np.testing.assert_array_equal(here, again)


def test_a_new_version_of_what_goes_into_a_part_makes_it_stale(monkeypatch):
    smoke = load_profile("smoke")

    def all_signed():
        return {
            (name, half, part): signed(name, smoke, half, part=part)
            for name, one in MEASUREMENTS.items()
            for half in one.halves
            for part in one.parts(smoke, half, obtaining.HALF_OF[half].task(smoke))
        }

    before = all_signed()
    made_of = {
        ("across_domains", "encoder", "outcomes"),
        ("pruning_curve", "encoder", "oracle"),
        ("across_domains", "translation", "outcomes"),
        ("pruning_curve", "translation", "oracle"),
        ("search", "translation", "outcomes"),
        *(key for key in before if key[0] == "stability" and "training" not in key[2]),
        *(("one_head", half, "outcomes") for half in ("encoder", "translation")),
    }
    monkeypatch.setitem(MEASUREMENTS["one_head"].__dict__, "version", 7)
    after = all_signed()
    assert {key for key in after if after[key] != before[key]} == made_of


def test_a_signature_holds_what_a_result_depends_on_and_nothing_else():
    smoke, default = load_profile("smoke"), load_profile("default")
    standard = signed("speed", smoke)
    assert signed("speed", load_profile("smoke", n_examples=8)) != standard
    assert signed("speed", load_profile("smoke", device="cuda")) != standard
    assert signed("speed", load_profile("smoke", n_examples=40)) == standard
    for task in ("enfr", "deen"):
        changed = dataclasses.replace(default.translator(task), learning_rate=1.0)
        translation = {**default.translation, task: {"post-norm": changed}}
        other = dataclasses.replace(default, translation=translation)
        first, second = (signed("quality", one, "translation", task) for one in (default, other))
        assert first != second


@pytest.mark.slow
def test_a_killed_measurement_goes_on_and_ends_with_the_same_file(
    trained, tmp_path, monkeypatch, computed
):
    def places(name):
        shutil.copytree(trained, tmp_path / name / "cache", dirs_exist_ok=True)
        folders = {"HEADPRUNE_RESULTS": "results", "HEADPRUNE_CACHE": "cache"}
        return {variable: str(tmp_path / name / last) for variable, last in folders.items()}

    for variable, folder in places("whole").items():
        monkeypatch.setenv(variable, folder)
    whole = measurements.get("figure3b", load_profile("smoke"))
    command = "from headprune_lib.replication.cli import app; app()"
    run = subprocess.Popen(
        [sys.executable, "-c", command, "reproduce", "figure3b", "--profile", "smoke"],
        env={**os.environ, **places("killed"), "OMP_NUM_THREADS": "1"},
        stderr=subprocess.DEVNULL,
    )
    journal = tmp_path / "killed" / "cache" / "journals"
    while run.poll() is None and len(list(journal.rglob("*.npz"))) < 8:
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    finished = {path.name for path in journal.rglob("*.npz")}
    assert len(finished) >= 8, "it ended before it could be killed"
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path / "killed" / "results"))
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path / "killed" / "cache"))
    computed.clear()
    resumed = measurements.get("figure3b", load_profile("smoke"))
    assert computed and not {quote(key, safe="") + ".npz" for key in computed} & finished
    assert resumed.values == whole.values and resumed.parts.keys() == whole.parts.keys()
    for part, kept in whole.parts.items():
        for name, array in kept.raw.items():
            np.testing.assert_array_equal(resumed.parts[part].raw[name], array)


@pytest.mark.parametrize(
    ("artifact", "given", "parts", "message"),
    [
        ("figur1b", {}, None, "unknown artifact 'figur1b': did you mean .*figure1b"),
        ("figure2b", {"task": "synthetic-words"}, None, "has no text of another domain"),
        ("pruning_curve", {"n_selection": 1000}, ["oracle leak-free"], "n_selection and n_scoring"),
        ("scoring_examples", {"n_scoring": 90}, None, "so that no sentence is in both"),
    ],
)
def test_a_wrong_request_is_refused(smoke, artifact, given, parts, message):
    with pytest.raises(ValueError, match=message):
        measurements.get(artifact, load_profile("smoke", **given), parts=parts)


# --- fewer texts ------------------------------------------------------------------------------------


def seeds_of(result):
    return {run["seed"] for part in result.parts.values() for run in part.runs}


def test_fewer_texts_are_measured_on_the_first_training_alone(smoke):
    announced, few = [], load_profile("smoke", n_examples=20)
    for name, left_out in (("figure3b", ["seed 2"]), ("figure1b", [])):
        result = measurements.get(name, few, fresh=True, announce=announced.append)
        assert seeds_of(result) == {1} and result.n_examples == 20
        assert {*announced[-1].parts} == {*result.parts}  # all, before the first was measured
        assert announced[-1].left_out == left_out
        if name == "figure3b":  # choices are made on as many training sentences
            assert result.parts["oracle leak-free"].raw["train_correct"].shape[1] == 20
    fewer = load_profile("smoke", translation_model="pre-norm", n_verses=12, n_headline=12)
    asked = measurements.get("figure6d", fewer, parts=["importance training 6"])
    assert seeds_of(asked) == {6}  # a training that is asked for by name


# --- the weights that a result was measured on ------------------------------------------------------


@pytest.fixture
def other(smoke, tmp_path, monkeypatch):
    """Puts other weights of the first fine-tuning in place of those that results rest on."""
    wanted = recipe(smoke, smoke.seed)
    path = weights_path(smoke.model, wanted)
    whole = path.read_bytes()
    monkeypatch.setenv("HEADPRUNE_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path / "results"))

    def put(committed):
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = file.metadata()
        tensors[min(tensors)] += 1
        name = f"{file_name(smoke.model, wanted)}.safetensors"
        target = tmp_path / "models" / name if committed else path
        target.parent.mkdir(exist_ok=True)
        save_file(tensors, target, metadata=metadata)
        return target

    yield put
    path.write_bytes(whole)


def test_other_weights_in_the_cache_are_told_with_both_hashes(smoke, other):
    first = measurements.get("one_head", smoke)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # weights that fit are not spoken of
        assert measurements.get("one_head", smoke).to_json() == first.to_json()
    path = other(committed=False)
    (run,) = first.parts["outcomes"].runs
    with pytest.warns(UserWarning, match="part outcomes of one_head/synthetic/tiny") as caught:
        assert measurements.get("one_head", smoke).to_json() == first.to_json()
    (message,) = [str(one.message) for one in caught]
    assert sha256_of(path) in message and run["weights_sha256"] in message
    assert message.endswith("headprune reproduce one_head --profile smoke")


def test_other_committed_weights_are_an_error_until_all_parts_are_measured(
    smoke, other, monkeypatch
):
    every = ["importance", "random", "fisher"]
    measurements.get("one_head", smoke)
    measurements.get("pruning_curve", smoke, parts=every)
    path = other(committed=True)
    with pytest.raises(OtherWeights, match="measured on .* put the committed file back") as caught:
        measurements.get("one_head", smoke)
    assert str(path) in str(caught.value) and sha256_of(path) in str(caught.value)
    fresh = measurements.get("one_head", smoke, fresh=True)
    assert fresh.parts["outcomes"].runs[0]["weights_sha256"] == sha256_of(path)
    assert measurements.get("one_head", smoke).to_json() == fresh.to_json()
    monkeypatch.setattr(EncoderSubject, "curve", None)  # refused before anything is measured
    with pytest.raises(OtherWeights, match="part fisher of .* --by 'fisher'$"):
        measurements.get("pruning_curve", smoke, parts=["importance"], fresh=True)


def test_nothing_is_trained_or_missed_where_no_weights_are(smoke, tmp_path, monkeypatch):
    first = measurements.get("one_head", smoke).to_json()
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert measurements.get("one_head", smoke).to_json() == first
    assert not list(tmp_path.rglob("*.safetensors"))
