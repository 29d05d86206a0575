"""Profiles: the YAML files load, and wrong names are refused with the nearest."""

import pytest

from headprune_lib.profiles import PROFILES, load_profile


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
        "snli", ["sick"], [1, 2, 3], "importance")
    assert snli.n_scoring == 7 and profile.domains == ["amazon", "nyt", "tweets"]
    base = load_profile("base")
    assert base.translation == profile.translation and base.finetuning.epochs == 3
    assert base.finetuning.learning_rate == 2e-5 and base.orders == "every"
    # CoLA's recipe was tuned for the small encoder; nothing else follows it
    assert {(name, task): load_profile(name, task=task).finetuning.epochs
            for name in ("default", "base") for task in ("reviews", "sst2", "cola", "mrpc", "snli")
            if load_profile(name, task=task).finetuning.epochs != 3} == {("default", "cola"): 10}


@pytest.mark.parametrize(("arguments", "message"), [
    ({"name": "defalt"}, "unknown profile 'defalt': did you mean default"),
    ({"task": "review"}, "unknown task 'review': did you mean reviews"),
    ({"model": "mini"}, "unknown model 'mini': did you mean minilm"),
    ({"n_exampels": 3}, "unknown parameter 'n_exampels': did you mean n_examples"),
    ({"n_examples": 0}, "n_examples is 0"),
    ({"n_verses": -3}, "n_verses is -3"),
])
def test_wrong_names(arguments, message):
    with pytest.raises(ValueError, match=message):
        load_profile(**arguments)
