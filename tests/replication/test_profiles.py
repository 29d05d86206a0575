"""Profiles: the YAML files load; how wrong values are refused, ``test_cli.py`` has."""

import dataclasses

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
    with pytest.raises(ValueError, match="epochs is 0. Give at least 1"):
        dataclasses.replace(plain.finetuning, epochs=0)
