"""The plan counts what is measured, fetches nothing, and sees what is done."""

import pytest

from headprune_lib.replication import measurements, planning
from headprune_lib.replication.measurements import Request, Upcoming
from headprune_lib.replication.planning import Probe
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.setups import TranslationSubject


@pytest.fixture
def nowhere(elsewhere, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(elsewhere / "hub"))
    return elsewhere


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
    # nine steps of each training's importance, of random orders and of the one-by-one order, and
    # both ends of each training
    along = 872 * (9 * (5 + 3 + 1) + 2 * 5)
    chosen, scored = 5000 * 79, 3 * 2000 * 5
    assert curve.passes == along + chosen + scored
    (best,) = [step for step in steps if step.what == "table6 (best_heads)"]
    assert best.passes == chosen + 9815 * (1 + 12)  # the best head of each layer, on the test set
    (timed,) = [step for step in steps if step.what == "table4 (speed)"]
    twice = 2 * 128  # BERT-base's shape again, at twice the length that a pass is counted at
    assert timed.passes == 2 * (256 + twice) * 4 * 6 + 3 * 2000
    fetched = planning.downloads(profile)
    assert [*fetched] == [
        "google-bert/bert-base-uncased",
        *(f"nyu-mll/glue/{task}" for task in ("cola", "mnli", "mrpc", "sst2")),
    ]
    assert not any(there for _, there in fetched.values())
    alone = [step.what for step in planning.steps(profile, "figure6a")]
    assert alone == [*(f"fine-tune, seed {n}" for n in range(1, 6)), "figure6a (pruning_curve)"]
    assert not [*nowhere.iterdir()], "planning writes nothing"


def test_a_result_of_a_task_without_the_usual_model_is_announced(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HEADPRUNE_DATA", str(tmp_path))
    (tmp_path / "multi30k").mkdir()
    for side in ("de", "en"):
        for file in ("train", "val", "test_2016_flickr"):
            lines = "".join(f"{file} {side} {line}\n" for line in range(40))
            (tmp_path / "multi30k" / f"{file}.{side}").write_text(lines)
    profile, curve = (
        load_profile(translation_model="pre-norm"),
        measurements.MEASUREMENTS["pruning_curve"],
    )
    parts = ["importance", "random"]
    request = Request(curve, "translation", profile, "multi30k")
    planning.announce(Upcoming(request, parts, []))
    assert "as the stored parts did" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["figure2a", "table2", "table5", "figure3a", "figure4", "figure5"])
def test_a_plan_counts_what_is_translated(name, smoke, monkeypatch):
    outcomes, done = TranslationSubject.outcomes, []

    def counted(subject, masks, texts, *args):
        done.append(len(texts) * (len(masks) + 2))  # and the uncut model, once more as drafts
        return outcomes(subject, masks, texts, *args)

    monkeypatch.setattr(TranslationSubject, "outcomes", counted)
    planned = [step for step in planning.steps(smoke, name) if step.state != "done"]
    measurements.get(name, smoke)
    most = sum(step.translations for step in planned)
    # two of the shares that Figure 5 is measured at may choose one checkpoint
    assert sum(done) == most if name != "figure5" else 0 < sum(done) <= most


@pytest.mark.slow
def test_a_stored_result_is_done_and_costs_nothing(smoke):
    def states():
        probe, planned = Probe(1.0, 0, measured=False), planning.steps(smoke, "figure1b")
        return [(step.state, step.hours(probe) > 0) for step in planned]

    assert states() == [("done", False), ("missing", True)]  # the training, and the measurement
    measurements.get("figure1b", smoke)
    assert states() == [("done", False)] * 2
