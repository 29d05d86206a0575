"""Artifacts on the smoke profile against plain computations."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
from urllib.parse import quote

import numpy as np
import pytest
import torch

from headprune_lib import cut_heads, find_heads, masked_heads
from headprune_lib.orders import order_mask
from headprune_lib.replication import measurements
from headprune_lib.replication.claims import evidence
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.measurements import MEASUREMENTS, obtaining
from headprune_lib.replication.measurements.accuracy import one_by_one_scores
from headprune_lib.replication.measurements.all_but_one import best_of_layers
from headprune_lib.replication.measurements.measurement import Measurement
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.store import Journal


def plainly(subject, examples, mask):
    """Right or wrong, one sentence at a time, without padding."""
    right = []
    for batch in subject.batches(examples).batches:
        for i in range(len(batch["labels"])):
            length = int(batch["attention_mask"][i].sum())
            with torch.no_grad(), masked_heads(subject.model, mask):
                inputs = {
                    name: value[i : i + 1, :length]
                    for name, value in batch.items()
                    if name in ("input_ids", "token_type_ids")
                }
                logits = subject.model(**inputs).logits
            right.append(bool(logits.argmax() == batch["labels"][i]))
    return subject.batches(examples).restore(np.array(right))


def test_figure1b_is_what_a_plain_loop_finds(smoke):
    raw = measurements.get("figure1b", smoke).raw
    subject = EncoderSubject.of(smoke)
    for row in (0, 3, 7):
        layer, head = raw["heads"][row].tolist()
        mask = cut_heads(subject.model, [("self", layer, head)])
        assert np.array_equal(raw["correct"][row], plainly(subject, subject.test, mask))
    assert len(raw["heads"]) == sum(block.n_heads for block in find_heads(subject.model))


def test_figure3b_steps_are_masks_of_the_recorded_order(smoke):
    parts = measurements.get("figure3b", smoke).parts
    subject = EncoderSubject.of(smoke)
    assert set(parts) == {
        "importance",
        "importance unnormalised",
        "importance reversed",
        "oracle",
        "oracle leak-free",
        "random",
        "importance rescored",
    }
    for part in parts.values():
        order = [("self", *pair) for pair in part.raw["order"][0].tolist()]
        assert sorted(order) == [("self", layer, head) for layer in (0, 1) for head in range(4)]
        for step, n_cut in ((3, 3), (8, 7)):  # ceil(8 i / 10)
            mask = order_mask(subject.model, order, n_cut)
            right = plainly(subject, subject.test, mask)
            assert np.array_equal(part.raw["correct"][0, step], right)
        np.testing.assert_array_equal(
            part.raw["correct"][0, 0], parts["importance"].raw["correct"][0, 0]
        )
    runs = parts["importance"].runs
    assert [run["seed"] for run in runs] == smoke.seeds and len(parts["oracle"].runs) == 1
    by_importance, backwards = (
        parts[name].raw["order"][0].tolist() for name in ("importance", "importance reversed")
    )
    assert backwards == by_importance[::-1]


@pytest.mark.parametrize("artifact", ["figure6b", "figure6c"])
def test_other_tasks_are_measured_in_their_own_score(artifact, smoke):
    found = measurements.get(artifact, smoke)
    subject = EncoderSubject.of(smoke.on(found.task))
    labels = np.array(subject.test.labels)
    assert found.key.path().name == f"{found.task}.tiny.json" and found.model == "tiny"
    assert set(found.parts) == {"importance", "random"}
    raw = found.parts["importance"].raw
    order = [("self", *pair) for pair in raw["order"][0].tolist()]
    right = plainly(subject, subject.test, order_mask(subject.model, order, 3))
    assert np.array_equal(raw["correct"][0, 3], right)
    curve = found.values["curves"]["importance main"]
    assert curve["accuracy"][3] == pytest.approx(right.mean(), abs=1e-5)
    answered = np.where(right, labels, 1 - labels)
    if found.metric == "matthews":  # the correlation of two 0/1 variables
        expected = np.corrcoef(answered, labels)[0, 1] if np.ptp(answered) else 0
        assert found.values["chance"] == 0
    else:
        hits = (answered * labels).sum()
        expected = 2 * hits / (answered.sum() + labels.sum())
        positive = labels.mean()
        assert found.values["chance"] == pytest.approx(2 * positive / (1 + positive), abs=1e-5)
    assert curve["mean"][3] == pytest.approx(expected, abs=1e-5)
    low, high = curve["interval"][3]
    assert low <= expected <= high


def test_a_figure_about_one_task_refuses_another(smoke):
    with pytest.raises(ValueError, match="figure6b is about synthetic-words"):
        measurements.get("figure6b", load_profile("smoke", task="synthetic-pairs"))


def test_the_verdicts_of_a_task_without_every_order(smoke):
    few = measurements.get("figure3b", smoke.on("synthetic-words"))
    (c3,) = evidence.rows_of(few)  # C8 compares with the one-by-one order, which is not there
    assert c3.claim == "C3" and c3.judged.word != "not run"
    with pytest.raises(ValueError, match="synthetic-words has no text of another domain"):
        measurements.get("figure2b", smoke.on("synthetic-words"))


def test_selection_and_scoring_must_not_overlap(smoke):
    with pytest.raises(ValueError, match="ask for 1032 of 201 training sentences"):
        measurements.get("figure3b", load_profile("smoke", n_selection=1000))


def test_times_of_fewer_sentences_or_another_device_are_other_results(smoke):
    standard = signed("speed", smoke)
    assert signed("speed", load_profile("smoke", n_examples=8)) != standard
    assert signed("speed", load_profile("smoke", device="cuda")) != standard
    assert signed("speed", load_profile("smoke", n_examples=40)) == standard


def signed(name: str | Measurement, profile, half="encoder", task=None, part=None) -> str:
    """The digest of a measurement's signature, of all its parts where none is named."""
    measurement = MEASUREMENTS[name] if isinstance(name, str) else name
    task = task or obtaining.HALF_OF[half].task(profile)
    parts = measurement.parts(profile, half, task) if part is None else [part]
    return "".join(
        obtaining.signature(measurement, half, profile, task, each)["digest"] for each in parts
    )


def test_a_second_call_reads_what_the_first_stored(smoke, monkeypatch):
    first = measurements.get("figure1b", smoke)
    monkeypatch.setattr(EncoderSubject, "sweep", None)
    assert measurements.get("figure1b", smoke).to_json() == first.to_json()


def test_own_parameters_do_not_overwrite_the_profiles_results(smoke):
    before = measurements.get("figure1b", smoke).to_json()
    few = measurements.get("figure1b", load_profile("smoke", n_examples=20))
    assert few.n_examples == 20
    assert measurements.get("figure1b", smoke).to_json() == before


@pytest.mark.slow
def test_a_killed_measurement_goes_on_and_ends_with_the_same_file(tmp_path, monkeypatch):
    def places(name):
        return {
            "HEADPRUNE_RESULTS": str(tmp_path / name / "results"),
            "HEADPRUNE_CACHE": str(tmp_path / name / "cache"),
        }

    for variable, folder in places("whole").items():
        monkeypatch.setenv(variable, folder)
    whole = measurements.get("figure3b", load_profile("smoke"))
    shutil.copytree(
        tmp_path / "whole" / "cache" / "models", tmp_path / "killed" / "cache" / "models"
    )

    run = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from headprune_lib.replication.cli import app; app()",
            "reproduce",
            "figure3b",
            "--profile",
            "smoke",
        ],
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

    for variable, folder in places("killed").items():
        monkeypatch.setenv(variable, folder)
    measured, unit = [], Journal.unit

    def counting(self, key, function):
        return unit(self, key, lambda: measured.append(key) or function())

    monkeypatch.setattr(Journal, "unit", counting)
    resumed = measurements.get("figure3b", load_profile("smoke"))
    assert measured and not {quote(key, safe="") + ".npz" for key in measured} & finished
    assert resumed.values == whole.values
    assert resumed.parts.keys() == whole.parts.keys()
    for part, kept in whole.parts.items():
        assert resumed.parts[part].raw.keys() == kept.raw.keys()
        for name, array in kept.raw.items():
            np.testing.assert_array_equal(resumed.parts[part].raw[name], array)


def test_table4_counts_what_the_saved_models_hold(smoke):
    values = measurements.get("table4", smoke).values
    for model in ("finetuned", "shape"):
        before, after = values[model]["parameters"]
        assert before - after == np.subtract(*values[model]["attention"]) > 0
        assert all(
            size > 4 * n
            for size, n in zip(values[model]["file"], values[model]["parameters"], strict=True)
        )
        assert min(values[model]["memory"]) > min(values[model]["file"])


def test_unknown_artifact(smoke):
    with pytest.raises(ValueError, match="unknown artifact 'figur1b': did you mean .*figure1b"):
        measurements.get("figur1b", smoke)


def test_best_of_layers_breaks_ties_by_loss():
    raw = {
        "heads": np.array([[0, 0], [0, 1], [1, 0], [1, 1]]),
        "correct": np.array([[1, 1], [1, 1], [0, 1], [1, 1]], bool),
        "loss_change": np.array([[5, 5], [1, 1], [0, 0], [9, 9]]),
    }
    assert best_of_layers(raw).tolist() == [1, 3]


def test_oracle_orders_by_accuracy_then_loss():
    raw = {
        "heads": np.array([[0, 0], [0, 1], [0, 2]]),
        "correct_uncut": np.array([1, 1], bool),
        "correct": np.array([[1, 0], [1, 1], [1, 1]], bool),
        "loss_change": np.array([[-9000, -9000], [30, 30], [20, 20]]),
    }
    scores = one_by_one_scores(raw)["self"][0]
    assert scores.argsort().tolist() == [2, 1, 0]


@pytest.mark.parametrize("task", ["enfr", "deen"])
def test_a_signature_holds_the_recipe_of_the_model_it_rests_on(task):
    profile = load_profile("default")
    changed = dataclasses.replace(profile.translator(task), learning_rate=1.0)
    other = dataclasses.replace(
        profile, translation={**profile.translation, task: {"post-norm": changed}}
    )
    assert signed("quality", profile, "translation", task) != (
        signed("quality", other, "translation", task)
    )


def test_a_new_version_of_what_goes_into_a_part_makes_it_stale(smoke, monkeypatch):
    def all_signed():
        return {
            (name, half, part): signed(one, smoke, half, part=part)
            for name, one in MEASUREMENTS.items()
            for half in one.halves
            for part in one.parts(smoke, half, obtaining.HALF_OF[half].task(smoke))
        }

    before = all_signed()
    for source, made in (
        (
            "one_head",
            {
                ("across_domains", "encoder", "outcomes"),
                ("pruning_curve", "encoder", "oracle"),
                ("across_domains", "translation", "outcomes"),
                ("pruning_curve", "translation", "oracle"),
                ("search", "translation", "outcomes"),
                *(key for key in before if key[0] == "stability" and "training" not in key[2]),
            },
        ),
        ("all_but_one", {("best_heads", "encoder", "outcomes")}),
    ):
        with monkeypatch.context() as patch:
            patch.setitem(MEASUREMENTS[source].__dict__, "version", 7)
            after = all_signed()
        own = {(source, half, "outcomes") for half in MEASUREMENTS[source].halves}
        assert {key for key in after if after[key] != before[key]} == own | made


@pytest.fixture
def computed(monkeypatch):
    """The keys of the units that are computed, not read from a journal."""
    keys, unit = [], Journal.unit
    monkeypatch.setattr(
        Journal,
        "unit",
        lambda self, key, function: unit(self, key, lambda: keys.append(key) or function()),
    )
    return keys


def test_measurements_share_their_passes(computed, smoke):
    profile = load_profile("smoke", n_examples=24)
    measurements.get("across_domains", profile)  # asks for one_head itself
    measurements.get("pruning_curve", profile, parts=["importance", "oracle", "oracle leak-free"])
    measurements.get("one_head", profile)
    sweeps = [key.split(" ", 1)[1] for key in computed if "one head" in key]
    texts = ("synthetic", "synthetic-far", "synthetic (train)")
    assert sorted(sweeps) == sorted(f"one head {text} 0" for text in texts)
    for seed in profile.seeds:
        key = EncoderSubject.of(profile, seed).key
        for mask in ("no head cut", "all heads cut"):
            assert computed.count(f"{key} {mask}") == 1


def test_the_best_heads_alone_are_measured_where_nothing_is_chosen_on_the_test_set(computed, smoke):
    found = measurements.get("best_heads", load_profile("smoke", orders="leak-free"))
    assert [key.split(" ", 1)[1] for key in computed] == [
        "all but one synthetic (train) 0",
        "no head cut",
        *(f"only {layer} {head}" for layer, head in found.raw["heads"].tolist()),
    ]
    every = measurements.get("best_heads", smoke).raw
    assert found.raw.keys() == every.keys()
    for name, values in found.raw.items():
        off = 1 if "loss" in name else 0  # thousandths of a nat, rounded
        np.testing.assert_allclose(values, every[name], rtol=0, atol=off)


def test_the_one_by_one_order_of_other_text_is_measured_where_it_is_asked_for(smoke):
    task = smoke.on("synthetic-pairs")
    found = measurements.get("pruning_curve", task, parts=["importance", "oracle leak-free"])
    assert "oracle leak-free" in found.values["area_differences"]
    with pytest.raises(ValueError, match="n_selection and n_scoring ask for"):
        measurements.get(
            "pruning_curve",
            load_profile("smoke", task="synthetic-pairs", n_selection=1000),
            parts=["oracle leak-free"],
        )


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
    assert "importance reversed" in after.values["area_differences"]
    assert set(measurements.get("pruning_curve", task).parts) == set(after.parts)
    with pytest.raises(ValueError, match="unknown order 'confidense'"):
        measurements.get("pruning_curve", task, parts=["confidense"])
