"""Recipes are compared on training examples that they were not trained on."""

import dataclasses

import numpy as np
import plainly
import pytest

from headprune_lib.replication import measurements
from headprune_lib.replication.data import TASKS
from headprune_lib.replication.encoder import tuning
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.encoder.training import finetune
from headprune_lib.replication.measurements import MEASUREMENTS
from headprune_lib.replication.measurements.obtaining import Request
from headprune_lib.replication.profiles import load_profile


@pytest.fixture
def profile(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path))
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path / "results"))
    return load_profile("smoke", task="synthetic-words")  # Matthews correlation


@pytest.mark.slow
def test_scores_are_those_of_a_plain_loop_over_examples_that_were_not_trained_on(profile):
    recipes = [dataclasses.replace(profile.finetuning, epochs=epochs) for epochs in (1, 8)]
    train = TASKS[profile.task].split("train", None)
    n_held_out = len(train) // 5
    held_out = train.last(n_held_out)
    stored = measurements.get("recipes", profile).values["recipes"]
    for trial, wanted, row in zip(tuning.tune(profile, recipes), recipes, stored, strict=True):
        own = dataclasses.replace(wanted, n_train=len(train) - n_held_out)  # the first ones
        assert trial.finetuning == own
        model = finetune(dataclasses.replace(profile, finetuning=own), profile.seed)
        subject = EncoderSubject(profile, profile.seed, model, "")
        right, nats = plainly.answers(subject, held_out)
        said = np.where(right, held_out.labels, 1 - np.array(held_out.labels))
        matthews = np.corrcoef(said, held_out.labels)[0, 1] if np.ptp(said) else 0
        assert wanted.epochs == 1 or np.ptp(said)  # the second recipe learns enough to be scored
        assert trial.score == pytest.approx(matthews) and trial.accuracy == right.mean()
        assert trial.log_loss == pytest.approx(nats.mean(), rel=1e-5)
        assert row["epochs"] == wanted.epochs
        for name, bound in (("score", 1e-5), ("accuracy", 1e-5), ("log_loss", 1e-3)):
            assert row[name] == pytest.approx(getattr(trial, name), abs=bound)


def test_a_recipe_depends_on_itself_and_not_on_the_one_that_was_chosen():
    def digest(part="2 epochs 0.001 batch 32", **finetuning):
        profile = load_profile("smoke")
        finetuning = dataclasses.replace(profile.finetuning, **finetuning)
        profile = dataclasses.replace(profile, finetuning=finetuning)
        one = MEASUREMENTS["recipes"]
        return Request(one, "encoder", profile, profile.task).signature(part)["digest"]

    assert digest(epochs=7, learning_rate=1.0) == digest() != digest(max_length=16)
    assert digest("2 epochs 0.001 batch 16") != digest()
