"""The plan counts what is measured, fetches nothing, and sees what is done."""

import dataclasses

import pytest
from typer.testing import CliRunner

from headprune_lib.replication import measurements, planning
from headprune_lib.replication.cli import app
from headprune_lib.replication.planning import Probe
from headprune_lib.replication.profiles import load_profile


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


def test_a_plan_of_the_paper_lists_its_downloads_trainings_and_measurements(nowhere):
    profile = load_profile("paper", halves=["encoder"])
    steps = planning.steps(profile)
    assert {step.task for step in steps} == {"mnli", "sst2", "cola", "mrpc"}
    assert len([step for step in steps if step.what.startswith("fine-tune")]) == 20
    (training,) = [s for s in steps if (s.task, s.what) == ("mnli", "fine-tune, seed 1")]
    assert training.passes == 3 * 3 * 392_702 and training.state == "missing"
    (one,) = [step for step in steps if step.what == "figure1b (one_head)"]
    assert one.passes == 9815 * (1 + sum(12 * (12 - layer) / 12 for layer in range(12)))
    (curve,) = [step for step in steps if step.what == "figure6a (pruning_curve)"]
    along = 10 * 872 * (5 + 3 + 1)  # importance by training, random orders, the one-by-one order
    chosen, scored = 5000 * 79, 3 * 2000 * 5
    assert curve.passes == along + chosen + scored
    fetched = planning.downloads(profile)
    assert [*fetched] == [
        "google-bert/bert-base-uncased",
        *(f"nyu-mll/glue/{task}" for task in ("cola", "mnli", "mrpc", "sst2")),
    ]
    assert not any(there for _, there in fetched.values())
    alone = [step.what for step in planning.steps(profile, "figure6a")]
    assert alone == [*(f"fine-tune, seed {n}" for n in range(1, 6)), "figure6a (pruning_curve)"]
    assert not [*nowhere.iterdir()], "planning writes nothing"


def test_the_translation_half_is_planned_by_translations(nowhere, monkeypatch):
    monkeypatch.delenv("HEADPRUNE_DATA", raising=False)
    monkeypatch.setattr("sacrebleu.utils.SACREBLEU_DIR", str(nowhere / "sacrebleu"))
    profile = load_profile("paper", halves=["translation"])
    steps = planning.steps(profile)
    assert {step.task for step in steps} == {"wmt14-enfr", "iwslt14-deen"} and len(steps) == 11
    by_name = {step.what.split(" ")[0]: step for step in steps}
    assert by_name["table1"].translations == 3000 * (3 * 6 * 16 + 2)
    assert by_name["table5"].translations == 3000 * (288 + 2) + 3003 * (18 + 2)
    assert by_name["figure5"].translations == 3 * 8 * 6750 * (10 + 1 + 5 + 2)
    assert by_name["train"].passes == 3 * 40 * 160_239
    fetched = planning.downloads(profile)
    assert len(fetched) == 3 and not any(there for _, there in fetched.values())
    assert not [*nowhere.iterdir()], "planning writes nothing"
    assert {step.task for step in planning.steps(profile, "figure4")} == {"wmt14-enfr"}
    trainings = planning.steps(profile, "figure6d")
    assert [step.what for step in trainings] == [
        *(f"train pre-norm, seed {seed}" for seed in (1, 2, 3)),
        "figure6d (pruning_curve)",
    ]


@pytest.mark.slow
def test_a_stored_result_is_done_and_costs_nothing(smoke):
    profile = dataclasses.replace(smoke, halves=["encoder"])

    def state():
        (step,) = [s for s in planning.steps(profile) if s.what == "figure1b (one_head)"]
        return step.state, step.hours(Probe(1.0, 0, measured=False))

    before = state()
    measurements.get("figure1b", smoke)
    assert before[0] == "missing" and before[1] > 0 and state() == ("done", 0)
    trained = [s for s in planning.steps(profile) if s.what.startswith("fine-tune, seed 1")]
    assert [step.task for step in trained if step.state == "done"] == ["synthetic"]
    assert len(trained) == 3


def test_every_measurement_is_planned_or_refused(nowhere):
    profile = load_profile("smoke")
    for name in measurements.MEASUREMENTS:
        _, half, _, _ = measurements.find_artifact(name, profile)
        if name in {**planning.encoder.PASSES, **planning.translation.WORK} and half != "language":
            assert any(f"({name})" in step.what for step in planning.steps(profile, name))
        else:
            with pytest.raises(ValueError, match=f"{name} is not in the paper, and its work is"):
                planning.steps(profile, name)


@pytest.mark.slow
def test_the_command_says_what_is_left(nowhere):
    told = CliRunner().invoke(app, ["plan", "smoke", "--only", "figure1b"])
    assert told.exit_code == 0, told.output
    assert "to be fetched: 0.00 GB" in told.output and "hours left on cpu" in told.output


def test_what_is_not_estimated_ends_in_one_line(nowhere):
    for name, message in [
        ("figure9", "unknown artifact 'figure9'"),
        ("recovery", "headprune reproduce recovery shows"),
    ]:
        refused = CliRunner().invoke(app, ["plan", "smoke", "--only", name])
        assert refused.exit_code == 2 and message in refused.output
