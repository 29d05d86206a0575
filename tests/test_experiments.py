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

from headprune_lib import cut_heads, experiments, find_heads, judging, masked_heads, results
from headprune_lib.experiments.all_but_one import best_of_layers
from headprune_lib.experiments.iterative import oracle_scores
from headprune_lib.experiments.outcomes import Setting
from headprune_lib.journal import Journal
from headprune_lib.orders import order_mask
from headprune_lib.profiles import load_profile


def plainly(setting, examples, mask):
    """Right or wrong, one sentence at a time, without padding."""
    right = []
    for batch in setting.batches(examples).batches:
        for i in range(len(batch["labels"])):
            length = int(batch["attention_mask"][i].sum())
            with torch.no_grad(), masked_heads(setting.model, mask):
                inputs = {name: value[i:i + 1, :length] for name, value in batch.items()
                          if name in ("input_ids", "token_type_ids")}
                logits = setting.model(**inputs).logits
            right.append(bool(logits.argmax() == batch["labels"][i]))
    return setting.batches(examples).restore(np.array(right))


def test_figure1b_is_what_a_plain_loop_finds(smoke):
    raw = experiments.get("figure1b", smoke).raw
    setting = Setting.of(smoke)
    for row in (0, 3, 7):
        layer, head = raw["heads"][row].tolist()
        mask = cut_heads(setting.model, [("self", layer, head)])
        assert np.array_equal(raw["correct"][row], plainly(setting, setting.test, mask))
    assert len(raw["heads"]) == sum(block.n_heads for block in find_heads(setting.model))


def test_figure3b_steps_are_masks_of_the_recorded_order(smoke):
    raw = experiments.get("figure3b", smoke).raw
    setting = Setting.of(smoke)
    order = [("self", *pair) for pair in raw["order"].tolist()]
    row = list(raw["curves"]).index("importance/1")
    for step, n_cut in ((3, 3), (8, 7)):  # ceil(8 i / 10)
        mask = order_mask(setting.model, order, n_cut)
        assert np.array_equal(raw["correct"][row, step], plainly(setting, setting.test, mask))
    assert (raw["correct"][:, 0] == raw["correct"][0, 0])[raw["curves"] != "importance/2"].all()


@pytest.mark.parametrize("artifact", ["figure6b", "figure6c"])
def test_other_tasks_are_measured_in_their_own_score(artifact, smoke):
    found = experiments.get(artifact, smoke)
    setting = Setting.of(smoke.on(found.task))
    labels = np.array(setting.test.labels)
    assert results.result_path(artifact, "smoke", found.task).name == f"{artifact}.json"
    assert {str(name).split("/")[0] for name in found.raw["curves"]} == {"importance", "random"}
    order = [("self", *pair) for pair in found.raw["order"].tolist()]
    right = plainly(setting, setting.test, order_mask(setting.model, order, 3))
    assert np.array_equal(found.raw["correct"][0, 3], right)
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
        experiments.get("figure6b", load_profile("smoke", task="synthetic-pairs"))


def test_the_verdicts_of_a_task_without_every_order(smoke):
    few = experiments.get("figure3b", smoke.on("synthetic-words"))
    c3, c8 = judging.verdicts_of(few)
    assert (c3.claim, c8.claim, c8.word) == ("C3", "C8", "not run") and c3.word != "not run"
    with pytest.raises(ValueError, match="synthetic-words has no text of another domain"):
        experiments.get("figure2b", smoke.on("synthetic-words"))


def test_selection_and_scoring_must_not_overlap(smoke):
    with pytest.raises(ValueError, match="ask for 1032 of 201 training sentences"):
        experiments.get("figure3b", load_profile("smoke", n_selection=1000))


def test_times_of_fewer_sentences_or_another_device_are_other_results(smoke):
    entry = experiments.ARTIFACTS["table4"]
    standard = experiments.signature(entry, smoke)["digest"]
    assert experiments.signature(entry, load_profile("smoke", n_examples=8))["digest"] != standard
    assert experiments.signature(entry, load_profile("smoke", device="cuda"))["digest"] != standard
    assert experiments.signature(entry, load_profile("smoke", n_examples=40))["digest"] == standard


def test_a_second_call_reads_what_the_first_stored(smoke, monkeypatch):
    first = experiments.get("figure1b", smoke)
    monkeypatch.setattr(experiments.one_head, "sweep", None)
    assert experiments.get("figure1b", smoke).to_json() == first.to_json()


def test_own_parameters_do_not_overwrite_the_profiles_results(smoke):
    before = experiments.get("figure1b", smoke).to_json()
    few = experiments.get("figure1b", load_profile("smoke", n_examples=20))
    assert few.n_examples == 20
    assert results.load("figure1b", "smoke").to_json() == before


@pytest.mark.slow
def test_a_killed_measurement_goes_on_and_ends_with_the_same_file(tmp_path, monkeypatch):
    def places(name):
        return {"HEADPRUNE_RESULTS": str(tmp_path / name / "results"),
                "HEADPRUNE_CACHE": str(tmp_path / name / "cache")}

    for variable, folder in places("whole").items():
        monkeypatch.setenv(variable, folder)
    whole = experiments.get("figure3b", load_profile("smoke"))
    shutil.copytree(tmp_path / "whole" / "cache" / "models", tmp_path / "killed" / "cache" / "models")

    run = subprocess.Popen(
        [sys.executable, "-c", "from headprune_lib.cli import app; app()",
         "reproduce", "figure3b", "--profile", "smoke"],
        env={**os.environ, **places("killed"), "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL)
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
    resumed = experiments.get("figure3b", load_profile("smoke"))
    assert measured and not {quote(key, safe="") + ".npz" for key in measured} & finished
    assert resumed.values == whole.values
    assert resumed.raw.keys() == whole.raw.keys()
    for name, array in whole.raw.items():
        np.testing.assert_array_equal(resumed.raw[name], array)


def test_table4_counts_what_the_saved_models_hold(smoke):
    values = experiments.get("table4", smoke).values
    for model in ("finetuned", "shape"):
        before, after = values[model]["parameters"]
        assert before - after == np.subtract(*values[model]["attention"]) > 0
        assert all(size > 4 * n for size, n in zip(values[model]["file"],
                                                   values[model]["parameters"], strict=True))
        assert min(values[model]["memory"]) > min(values[model]["file"])


def test_unknown_artifact(smoke):
    with pytest.raises(ValueError, match="unknown artifact 'figur1b': did you mean .*figure1b"):
        experiments.get("figur1b", smoke)


def test_best_of_layers_breaks_ties_by_loss():
    raw = {"heads": np.array([[0, 0], [0, 1], [1, 0], [1, 1]]),
           "correct": np.array([[1, 1], [1, 1], [0, 1], [1, 1]], bool),
           "loss_change": np.array([[5, 5], [1, 1], [0, 0], [9, 9]])}
    assert best_of_layers(raw).tolist() == [1, 3]


def test_oracle_orders_by_accuracy_then_loss():
    raw = {"heads": np.array([[0, 0], [0, 1], [0, 2]]), "correct_uncut": np.array([1, 1], bool),
           "correct": np.array([[1, 0], [1, 1], [1, 1]], bool),
           "loss_change": np.array([[-9000, -9000], [30, 30], [20, 20]])}
    scores = oracle_scores(raw)["self"][0]
    assert scores.argsort().tolist() == [2, 1, 0]


@pytest.mark.parametrize("task", ["enfr", "deen"])
def test_a_signature_holds_the_recipe_of_every_model_it_rests_on(task):
    profile, entry = load_profile("default"), experiments.ARTIFACTS["quality"]
    changed = dataclasses.replace(profile.translation[task], learning_rate=1.0)
    other = dataclasses.replace(profile, translation={**profile.translation, task: changed})
    assert experiments.signature(entry, profile)["digest"] != (
        experiments.signature(entry, other)["digest"])


def test_a_new_version_of_what_goes_into_an_artifact_makes_it_stale(smoke, monkeypatch):
    before = {name: experiments.signature(entry, smoke)["digest"] for name, entry in experiments.ARTIFACTS.items()}
    for source, made in (("figure1b", {"figure2b", "figure3b", "figure6b", "figure6c"}),
                         ("table1", {"figure2a", "figure3a", "search"}), ("table3", {"table6"})):
        with monkeypatch.context() as patch:
            made_anew = dataclasses.replace(experiments.ARTIFACTS[source], version=7)
            patch.setitem(experiments.ARTIFACTS, source, made_anew)
            after = {name: experiments.signature(entry, smoke)["digest"] for name, entry in experiments.ARTIFACTS.items()}
        assert {name for name in after if after[name] != before[name]} == {source, *made}
