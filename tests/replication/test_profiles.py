"""Profiles: the YAML files load, and wrong names are refused with the nearest."""

import dataclasses
import re

import pytest

from headprune_lib.replication.profiles import PROFILES, load_profile


def test_every_profile_loads_with_trainings_and_checkpoints_of_its_translators():
    for name in PROFILES:
        profile = load_profile(name)
        assert profile.name == name and profile.task == profile.main_task
        assert profile.seed == profile.seeds[0]
        other = load_profile(name, translation_seed=9)
        for task, models in profile.translation.items():
            seeds = profile.translation_seeds[task]
            assert seeds.keys() == models.keys() <= profile.checkpoints.keys()
            for model in models:
                assert profile.trainings(task, model) == seeds[model]
                assert other.trainings(task, model) == [9]


def test_given_values_replace_those_of_the_file():
    profile = load_profile("default", seed=3, n_examples=10, task=None)
    assert profile.seeds[0] == 3 and sorted(profile.seeds) == [1, 2, 3, 4, 5]
    assert profile.n_examples == 10 and profile.task == "reviews"
    plain, given = load_profile(), load_profile(finetuning={"epochs": 1})
    assert given.finetuning == dataclasses.replace(plain.finetuning, epochs=1)
    assert given.on("cola").finetuning.epochs == 1  # not CoLA's own ten
    with pytest.raises(ValueError, match="epochs is 0; give a number above 0"):
        dataclasses.replace(plain.finetuning, epochs=0)


def test_another_task_brings_its_own_values_and_keeps_the_given_ones():
    profile = load_profile("default", n_scoring=7)
    snli = profile.on("snli")
    assert (snli.domains, snli.seeds, snli.orders) == (["sick"], [1, 2, 3], "importance")
    assert snli.n_scoring == 7 and profile.domains == ["amazon", "nyt", "tweets"]
    base = load_profile("base")
    assert base.translation == profile.translation and base.finetuning.epochs == 3
    assert base.finetuning.learning_rate == 2e-5 and base.orders == "every"
    # CoLA's recipe was tuned for the small encoder; nothing else follows it
    assert profile.on("cola").finetuning.epochs == 10
    assert base.on("cola").finetuning.epochs == profile.on("mrpc").finetuning.epochs == 3


def enfr(**post_norm):
    return {"translation": {"enfr": {"post-norm": post_norm}}}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "defalt"}, "unknown profile 'defalt': did you mean default"),
        ({"task": "review"}, "unknown task 'review': did you mean reviews"),
        ({"model": "mini"}, "unknown model 'mini': did you mean minilm"),
        ({"n_exampels": None}, "unknown parameter 'n_exampels': did you mean n_examples"),
        ({"steps": 0, "n_verses": -3}, "steps is 0; give at least 1; n_verses is -3; give"),
        ({"n_examples": 2.5}, "n_examples is 2.5; give a valid integer"),
        ({"n_examples": True}, "n_examples is True; give a valid integer"),
        ({"batch_size": "32"}, "batch_size is '32'; give a valid integer"),
        ({"finetuning": {"epohcs": 3}}, "unknown parameter of finetuning 'epohcs': did you mean"),
        ({"finetuning": {"learning_rate": "fast"}}, "finetuning.learning_rate is 'fast'; give a"),
        ({"speed": 3}, "speed is 3; give "),
        (enfr(shape={"layers": 1.5}), "enfr.post-norm.shape.layers is 1.5; give a valid integer"),
        (enfr(shape={"norm": "befor"}), "shape.norm is 'befor'; give 'after' or 'before'"),
        (enfr(shape={"layer": 1}), "unknown parameter of translation.enfr.post-norm.shape 'layer'"),
        ({"translation": {"enfr": {"deep": {}}}}, "translation.enfr.deep.shape is missing"),
    ],
)
def test_wrong_values_are_named_with_what_to_give(given, message):
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        load_profile(**given)
    assert "pydantic" not in str(refused.value)


def test_a_translation_model_is_named_by_task_and_model():
    profile = load_profile()
    assert profile.translator("deen") is profile.translation["deen"]["post-norm"]
    assert profile.translator("deen", "pre-norm").shape.norm == "before"
    with pytest.raises(ValueError, match="unknown model of enfr 'pre-norm': did you mean post-nor"):
        profile.translator("enfr", "pre-norm")
    with pytest.raises(ValueError, match="unknown translation task 'reviews'"):
        profile.translator("reviews")


def test_trainings_of_a_model():
    profile = load_profile(translation_model="pre-norm")
    assert profile.trainings("deen") == [2, 3, 4]
    profile.check_training("deen", 4)
    with pytest.raises(ValueError, match="training 1 is none .* 2, 3, 4; .* give --seed 1"):
        profile.check_training("deen", 1)
    with pytest.raises(ValueError, match="unknown model of enfr 'pre-norm'"):
        profile.trainings("enfr")


@pytest.mark.parametrize(
    ("device", "there", "lacks", "here"),
    [("cuda", False, True, "cpu"), ("cuda:1", True, False, "cuda:1"), ("cpu", False, False, "cpu")],
)
def test_a_process_without_the_profiles_gpu_says_so(device, there, lacks, here, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: there)
    profile = load_profile("paper", device=device)
    assert (profile.lacks_gpu, profile.device_here) == (lacks, here)
