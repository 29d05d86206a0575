"""Recipes are compared on training examples that they were not trained on."""

import dataclasses

import pytest
import torch
from typer.testing import CliRunner

from headprune_lib.replication.cli import app
from headprune_lib.replication.data import TASKS
from headprune_lib.replication.encoder import training, tuning
from headprune_lib.replication.encoder.training import finetune
from headprune_lib.replication.pretrained import load_tokenizer
from headprune_lib.replication.profiles import load_profile

HELD_OUT = 40


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def profile():
    return load_profile("smoke", task="synthetic-words")  # Matthews correlation


@pytest.mark.slow
def test_scores_are_those_of_a_plain_loop_over_examples_that_were_not_trained_on(profile):
    recipes = [dataclasses.replace(profile.finetuning, epochs=epochs) for epochs in (1, 8)]
    train = TASKS[profile.task].split("train", None)
    held_out, tokenizer = train.last(HELD_OUT), load_tokenizer(profile.model)
    for trial, wanted in zip(tuning.tune(profile, recipes, HELD_OUT), recipes, strict=True):
        assert trial.finetuning.epochs == wanted.epochs
        assert (
            trial.finetuning.n_train == len(train) - HELD_OUT
        )  # the first ones, held_out the last
        model = finetune(dataclasses.replace(profile, finetuning=trial.finetuning), profile.seed)
        cells, nats = {(a, b): 0 for a in (0, 1) for b in (0, 1)}, 0.0
        for text, label in zip(held_out.texts, held_out.labels, strict=True):
            with torch.no_grad():
                logits = model(**tokenizer(text, return_tensors="pt")).logits[0].double()
            cells[label, int(logits.argmax())] += 1
            nats -= float(logits.log_softmax(-1)[label])
        right, tp, tn, fp, fn = (
            cells[0, 0] + cells[1, 1],
            cells[1, 1],
            cells[0, 0],
            cells[0, 1],
            cells[1, 0],
        )
        scale = ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5
        assert wanted.epochs == 1 or scale > 0  # the second recipe learns enough to be scored
        assert trial.score == pytest.approx((tp * tn - fp * fn) / scale if scale else 0)
        assert trial.accuracy == right / HELD_OUT
        assert trial.log_loss == pytest.approx(nats / HELD_OUT, rel=1e-5)


def test_something_is_left_on_both_sides(profile):
    n = len(TASKS[profile.task].split("train", None))
    for n_held_out in (0, -1, n, n + 1):
        with pytest.raises(ValueError, match=f"n_held_out is {n_held_out}; give 1 to {n - 1}, "):
            next(tuning.tune(profile, [profile.finetuning], n_held_out))
    assert next(tuning.tune(profile, [profile.finetuning])).n_held_out == n // 5


class Killed(Exception):
    pass


@pytest.mark.slow
def test_a_killed_run_goes_on_and_nothing_large_stays(profile, cache, monkeypatch):
    recipes = [dataclasses.replace(profile.finetuning, epochs=epochs) for epochs in (1, 2)]
    whole = list(tuning.tune(profile, recipes, HELD_OUT))
    for path in (cache / "tuning").glob("[!.]*"):
        path.unlink()
    calls, make = [], training.make_batches

    def dying(*args):
        calls.append(args)
        if len(calls) == 3:  # the last epoch of all
            raise Killed
        return make(*args)

    monkeypatch.setattr(training, "make_batches", dying)
    with pytest.raises(Killed):
        list(tuning.tune(profile, recipes, HELD_OUT))
    assert len(list((cache / "training").glob("[!.]*"))) == 1
    assert list(tuning.tune(profile, recipes, HELD_OUT)) == whole
    assert len(calls) == 4  # the one that was killed, again
    assert not list((cache / "training").glob("[!.]*"))
    assert len(list((cache / "tuning").glob("[!.]*"))) == 2


@pytest.mark.slow
def test_a_line_a_recipe(profile):
    arguments = [
        "tune",
        profile.task,
        "--profile",
        "smoke",
        "--n-held-out",
        str(HELD_OUT),
        "--epochs",
        "1",
        "--epochs",
        "8",
        "--batch-size",
        "16",
        "--learning-rate",
        "1e-3",
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    recipes = [dataclasses.replace(profile.finetuning, epochs=epochs) for epochs in (1, 8)]
    assert result.stdout.splitlines() == [
        f"epochs {trial.finetuning.epochs}, learning rate 0.001, batches of 16: "
        f"matthews {trial.score:.3f}, accuracy {trial.accuracy:.3f}, "
        f"log-loss {trial.log_loss:.3f} (40 examples)"
        for trial in tuning.tune(profile, recipes, HELD_OUT)
    ]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--epochs", "0", "epochs is 0; give a number above 0"),
        ("--learning-rate", "-1", "learning_rate is -1.0; give a number above 0"),
        ("--learning-rate", "inf", "learning_rate is inf; give a number above 0"),
        ("--batch-size", "0", "batch_size is 0; give a number above 0"),
        ("--n-held-out", "1000000", "n_held_out is 1000000; give 1 to "),
    ],
)
def test_bad_values_are_named(option, value, message):
    result = CliRunner().invoke(app, ["tune", "synthetic", "--profile", "smoke", option, value])
    assert result.exit_code == 2
    assert message in result.output
