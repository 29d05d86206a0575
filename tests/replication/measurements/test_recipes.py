"""Recipes of fine-tuning as a stored result, against a plain trial of each."""

import dataclasses

import numpy as np
import pytest

from headprune_lib.replication import measurements
from headprune_lib.replication.encoder import tuning
from headprune_lib.replication.measurements import MEASUREMENTS
from headprune_lib.replication.measurements.obtaining import signature
from headprune_lib.replication.measurements.recipes import name_of, read_name
from headprune_lib.replication.pages import findings, tables
from headprune_lib.replication.profiles import Candidate

TASK = "synthetic-words"  # Matthews correlation


@pytest.fixture(scope="module")
def found(smoke):
    return measurements.get("recipes", smoke.on(TASK))


def test_every_answer_is_that_of_a_trial(smoke, found):
    profile = smoke.on(TASK)
    recipes = [
        dataclasses.replace(profile.finetuning, **dataclasses.asdict(one))
        for one in profile.recipes
    ]
    trials = list(tuning.tune(profile, recipes))
    assert [found.metric, found.n_examples] == ["matthews", trials[0].n_held_out]
    assert set(found.parts) == set(map(name_of, profile.recipes))
    labels = np.array(tuning.last_examples(profile).labels)
    for row, trial in zip(found.values["recipes"], trials, strict=True):
        assert row["epochs"] == trial.finetuning.epochs
        assert row["score"] == pytest.approx(trial.score, abs=1e-5)
        assert row["accuracy"] == pytest.approx(trial.accuracy, abs=1e-5)
        assert row["log_loss"] == pytest.approx(trial.log_loss, abs=1e-3)
        for value, interval in (("score", "interval"), ("log_loss", "log_loss_interval")):
            low, high = row[interval]
            assert low <= row[value] <= high
        raw = found.parts[name_of(Candidate(row["epochs"], 1e-3, 16))].raw
        answered = np.where(raw["correct"], labels, 1 - labels)
        expected = np.corrcoef(answered, labels)[0, 1] if np.ptp(answered) else 0
        assert row["score"] == pytest.approx(expected, abs=1e-5)
        assert len(raw["loss"]) == len(labels)
    first, last = found.values["recipes"]
    assert first["gain"] == {"difference": 0.0, "interval": [0.0, 0.0]}
    assert last["gain"]["difference"] == pytest.approx(last["score"] - first["score"], abs=1e-5)
    low, high = last["gain"]["interval"]
    assert low <= last["gain"]["difference"] <= high


def test_one_more_recipe_leaves_the_others_alone(smoke, found):
    after = measurements.get("recipes", smoke.on(TASK), parts=["2 epochs 0.001 batch 32"])
    assert [row["epochs"] for row in after.values["recipes"]] == [1, 2, 8]
    for name, part in found.parts.items():
        assert after.parts[name].raw_sha256 == part.raw_sha256
        assert after.parts[name].provenance == part.provenance


def test_a_recipe_depends_on_itself_and_not_on_the_one_that_was_chosen(smoke):
    def digest(profile, part="2 epochs 0.001 batch 32"):
        one = MEASUREMENTS["recipes"]
        return signature(one, "encoder", profile, profile.task, part)["digest"]

    chosen, limit = (
        dataclasses.replace(smoke, finetuning=dataclasses.replace(smoke.finetuning, **other))
        for other in ({"epochs": 7, "learning_rate": 1.0}, {"max_length": 16})
    )
    assert digest(chosen) == digest(smoke) != digest(limit)
    assert digest(smoke, "2 epochs 0.001 batch 16") != digest(smoke)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("importance", "'importance' is no recipe: give one as '10 epochs 0.0001 batch 32'"),
        ("0 epochs 0.001 batch 8", "is no recipe: give one as"),
        ("2 epochs 1e-3 batch 8", "is no recipe: write it as '2 epochs 0.001 batch 8'"),
    ],
)
def test_what_is_no_recipe_is_refused(name, message):
    with pytest.raises(ValueError, match=message):
        read_name(name)


def test_the_page_marks_the_recipe_that_is_used(smoke, found):
    table = tables.recipes_table(found)
    assert list(table)[3] == "Matthews correlation" and table["minus the first"][0] == ""
    lines = findings.recipes(found).splitlines()
    assert all(line.startswith("  |") for line in lines)
    # smoke's own fine-tuning is one epoch
    assert [line.count("**") for line in lines[2:4]] == [10, 0]


def test_a_page_waits_for_every_recipe(found):
    assert findings.every_recipe(found)
    name, part = next(iter(found.parts.items()))
    assert not findings.every_recipe(dataclasses.replace(found, parts={name: part}))
