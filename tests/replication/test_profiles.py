"""Profiles: the YAML files load, and wrong names are refused with the nearest."""

import dataclasses
import re

import pytest

from headprune_lib.replication.profiles import PROFILES, load_profile


@pytest.mark.parametrize("name", PROFILES)
def test_loads(name):
    profile = load_profile(name)
    assert profile.name == name and profile.task == profile.main_task
    assert profile.seed == profile.seeds[0]


def test_overrides():
    profile = load_profile("default", seed=3, n_examples=10, task=None)
    assert profile.seeds[0] == 3 and sorted(profile.seeds) == [1, 2, 3, 4, 5]
    assert profile.n_examples == 10 and profile.task == "reviews"


def test_another_task_brings_its_own_values_and_keeps_the_given_ones():
    profile = load_profile("default", n_scoring=7)
    snli = profile.on("snli")
    assert (snli.task, snli.domains, snli.seeds, snli.orders) == (
        "snli",
        ["sick"],
        [1, 2, 3],
        "importance",
    )
    assert snli.n_scoring == 7 and profile.domains == ["amazon", "nyt", "tweets"]
    base = load_profile("base")
    assert base.translation == profile.translation and base.finetuning.epochs == 3
    assert base.finetuning.learning_rate == 2e-5 and base.orders == "every"
    # CoLA's recipe was tuned for the small encoder; nothing else follows it
    assert {
        (name, task): load_profile(name, task=task).finetuning.epochs
        for name in ("default", "base")
        for task in ("reviews", "sst2", "cola", "mrpc", "snli")
        if load_profile(name, task=task).finetuning.epochs != 3
    } == {("default", "cola"): 10}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "defalt"}, "unknown profile 'defalt': did you mean default"),
        ({"task": "review"}, "unknown task 'review': did you mean reviews"),
        ({"model": "mini"}, "unknown model 'mini': did you mean minilm"),
        ({"n_exampels": 3}, "unknown parameter 'n_exampels': did you mean n_examples"),
        ({"n_examples": 0}, "n_examples is 0"),
        ({"n_verses": -3}, "n_verses is -3"),
    ],
)
def test_wrong_names(arguments, message):
    with pytest.raises(ValueError, match=message):
        load_profile(**arguments)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_examples": 2.5}, "n_examples is 2.5; give a valid integer"),
        ({"n_examples": True}, "n_examples is True; give a valid integer"),
        ({"batch_size": "32"}, "batch_size is '32'; give a valid integer"),
        ({"n_domain": 0}, "n_domain is 0; give at least 1"),
        ({"domains": "nyt"}, "domains is 'nyt'; give a valid list"),
        ({"domains": ["nyt", "amazn"]}, "unknown domain 'amazn': did you mean amazon"),
        ({"seeds": [1, "2"]}, "seeds.1 is '2'; give a valid integer"),
        ({"orders": "all"}, "orders is 'all'; give 'every', 'leak-free' or 'importance'"),
        ({"translation_task": "enf"}, "unknown translation task 'enf': did you mean enfr"),
        (
            {"finetuning": {"epohcs": 3}},
            "unknown parameter of finetuning 'epohcs': did you mean epochs",
        ),
        (
            {"finetuning": {"learning_rate": "fast"}},
            "finetuning.learning_rate is 'fast'; give a valid number",
        ),
        ({"speed": 3}, "speed is 3; give "),
        (
            {"translation": {"enfr": {"post-norm": {"shape": {"layers": 1.5}}}}},
            "translation.enfr.post-norm.shape.layers is 1.5; give a valid integer",
        ),
        (
            {"translation": {"enfr": {"post-norm": {"shape": {"norm": "befor"}}}}},
            "translation.enfr.post-norm.shape.norm is 'befor'; give 'after' or 'before'",
        ),
        (
            {"translation": {"enfr": {"post-norm": {"shape": {"layer": 1}}}}},
            "unknown parameter of translation.enfr.post-norm.shape 'layer': did you mean layers",
        ),
        ({"translation": {"enfr": {"deep": {}}}}, "translation.enfr.deep.shape is missing"),
        ({"n_exampels": None}, "unknown parameter 'n_exampels': did you mean n_examples"),
        ({"steps": 0, "random_orders": 0}, "steps is 0; give at least 1; random_orders is 0; give"),
    ],
)
def test_wrong_values_are_named_with_what_to_give(given, message):
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        load_profile(**given)
    assert "pydantic" not in str(refused.value)


def test_one_value_of_a_section_leaves_the_others():
    plain, given = load_profile(), load_profile(finetuning={"epochs": 1})
    assert given.finetuning == dataclasses.replace(plain.finetuning, epochs=1)
    assert given.on("cola").finetuning.epochs == 1  # not CoLA's own ten
    with pytest.raises(ValueError, match="epochs is 0; give a number above 0"):
        dataclasses.replace(plain.finetuning, epochs=0)


def test_a_translation_model_is_named_by_task_and_model():
    profile = load_profile()
    assert profile.translator("deen") is profile.translation["deen"]["post-norm"]
    assert profile.translator("deen", "pre-norm").shape.norm == "before"
    assert {task: list(models) for task, models in profile.translation.items()} == {
        "enfr": ["post-norm"],
        "deen": ["post-norm", "post-norm-6", "pre-norm"],
        "multi30k": ["pre-norm"],
    }
    assert profile.translator("multi30k", "pre-norm") == profile.translator("deen", "pre-norm")
    both = profile.translator("deen", "post-norm-6"), profile.translator("deen", "pre-norm")
    assert both[0] == dataclasses.replace(both[1], shape=both[0].shape)
    assert both[0].shape == profile.translator("deen").shape
    with pytest.raises(
        ValueError, match="unknown model of enfr 'pre-norm': did you mean post-norm"
    ):
        profile.translator("enfr", "pre-norm")
    with pytest.raises(ValueError, match="unknown translation task 'reviews'"):
        profile.translator("reviews")


@pytest.mark.parametrize("name", PROFILES)
def test_every_translation_model_has_trainings_and_checkpoints(name):
    profile = load_profile(name)
    for task, models in profile.translation.items():
        assert profile.translation_seeds[task].keys() == models.keys() <= profile.checkpoints.keys()
        for model in models:
            assert profile.trainings(task, model) == profile.translation_seeds[task][model]
            assert load_profile(name, translation_seed=9).trainings(task, model) == [9]


def test_trainings_of_a_model():
    profile = load_profile(translation_model="pre-norm")
    assert profile.trainings("deen") == [2, 3, 4]
    profile.check_training("deen", 4)
    with pytest.raises(ValueError, match="training 1 is none .* 2, 3, 4; .* give --seed 1"):
        profile.check_training("deen", 1)
    with pytest.raises(ValueError, match="unknown model of enfr 'pre-norm'"):
        profile.trainings("enfr")


def test_the_papers_recipe_and_sizes_hold_on_each_of_its_tasks():
    found = [load_profile("paper", task=task) for task in ("mnli", "sst2", "cola", "mrpc")]
    for profile in found:
        recipe = profile.finetuning
        assert (recipe.epochs, recipe.learning_rate, recipe.batch_size) == (3, 2e-5, 32)
        assert (profile.model, profile.data, profile.seeds) == ("bert-base", "hub", [1, 2, 3, 4, 5])
        assert profile.orders == "leak-free" and profile.n_examples is None
    assert found[0].domains == ["mnli-mismatched"] and found[0].n_selection == 5000
    assert found[3].n_scoring + found[3].n_selection <= 3668


def test_the_papers_translators_are_a_published_one_and_fairseqs():
    profile = load_profile("paper")
    assert (profile.translation_task, profile.translation_far) == ("wmt14-enfr", "mtnt-enfr")
    wmt, iwslt = profile.translation_task, profile.training_task
    assert profile.translator(wmt, profile.model_of(wmt)).archive == "wmt14-enfr"
    recipe = profile.translator(iwslt, profile.model_of(iwslt))
    assert (profile.model_of(iwslt), recipe.epochs, recipe.pieces) == ("pre-norm", 40, 10_000)
    assert profile.trainings(iwslt) == [1, 2, 3] and profile.beams == 5
    assert max(profile.checkpoints["pre-norm"].epochs) == recipe.epochs
    assert load_profile("paper", translation_model="post-norm").model_of(iwslt) == "post-norm"
    with pytest.raises(ValueError, match="fairseq.iwslt14-deen.pre-norm.epochs is 0"):
        load_profile("paper", fairseq={iwslt: {"pre-norm": {"epochs": 0}}})


@pytest.mark.parametrize(
    ("device", "there", "lacks", "here"),
    [("cuda", False, True, "cpu"), ("cuda:1", True, False, "cuda:1"), ("cpu", False, False, "cpu")],
)
def test_a_process_without_the_profiles_gpu_says_so(device, there, lacks, here, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: there)
    profile = load_profile("paper", device=device)
    assert (profile.lacks_gpu, profile.device_here) == (lacks, here)
