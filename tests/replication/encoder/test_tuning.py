"""Recipes are compared on training examples that they were not trained on."""

import dataclasses
import shutil

import numpy as np
import plainly
import pytest
from typer.testing import CliRunner

from headprune_lib.replication import measurements
from headprune_lib.replication.cli import app
from headprune_lib.replication.data import TASKS
from headprune_lib.replication.encoder import training, tuning
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.encoder.training import finetune
from headprune_lib.replication.measurements import MEASUREMENTS
from headprune_lib.replication.measurements.obtaining import signature
from headprune_lib.replication.profiles import load_profile

HELD_OUT = 40


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
        return signature(one, "encoder", profile, profile.task, part)["digest"]

    assert digest(epochs=7, learning_rate=1.0) == digest() != digest(max_length=16)
    assert digest("2 epochs 0.001 batch 16") != digest()


class Killed(Exception):
    pass


@pytest.mark.slow
def test_a_killed_run_goes_on_and_nothing_large_stays(profile, tmp_path, monkeypatch):
    recipes = [dataclasses.replace(profile.finetuning, epochs=epochs) for epochs in (1, 2)]
    whole = list(tuning.tune(profile, recipes, HELD_OUT))
    shutil.rmtree(tmp_path / "tuning")
    calls, make = [], training.make_batches

    def dying(*args):
        calls.append(args)
        if len(calls) == 3:  # the last epoch of all
            raise Killed
        return make(*args)

    monkeypatch.setattr(training, "make_batches", dying)
    with pytest.raises(Killed):
        list(tuning.tune(profile, recipes, HELD_OUT))
    assert len(list((tmp_path / "training").glob("[!.]*"))) == 1
    assert list(tuning.tune(profile, recipes, HELD_OUT)) == whole
    assert len(calls) == 4  # the one that was killed, again
    assert not list((tmp_path / "training").glob("[!.]*"))
    assert len(list((tmp_path / "tuning").glob("[!.]*"))) == 2


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--epochs", "0", "epochs is 0; give a number above 0"),
        ("--learning-rate", "inf", "learning_rate is inf; give a number above 0"),
        ("--batch-size", "0", "batch_size is 0; give a number above 0"),
        ("--n-held-out", "0", "n_held_out is 0; give 1 to "),
        ("--n-held-out", "1000000", "n_held_out is 1000000; give 1 to "),
    ],
)
def test_bad_values_are_named(option, value, message):
    result = CliRunner().invoke(app, ["tune", "synthetic", "--profile", "smoke", option, value])
    assert result.exit_code == 2 and message in result.output
