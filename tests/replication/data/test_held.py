"""Test pairs that the first results left: the same text and models, another result."""

import dataclasses

import pytest

from headprune_lib.replication import measurements
from headprune_lib.replication.data import TASKS, Examples
from headprune_lib.replication.encoder.recipe import recipe
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.encoder.weights import weights_path
from headprune_lib.replication.measurements import MEASUREMENTS
from headprune_lib.replication.measurements.obtaining import signature
from headprune_lib.replication.profiles import load_profile

N_PAIRS = 2_100


@pytest.fixture
def folder(tmp_path):
    """Made-up pairs in the form of SNLI's files, more than any profile has used."""
    (tmp_path / "snli").mkdir()
    for split, n in (("dev", 40), ("test", N_PAIRS)):
        for file, lines in (
            ("labels", ["neutral"] * n),
            ("s1", [f"picture {i}" for i in range(n)]),
            ("s2", [f"{split} caption {i}" for i in range(n)]),
        ):
            (tmp_path / "snli" / f"{file}.{split}").write_text("\n".join(lines) + "\n")
    return str(tmp_path)


def measured_on(profile) -> Examples:
    """What the reported numbers of a profile would be measured on; no model is needed for that."""
    return EncoderSubject(profile, 1, None, "").test


@pytest.mark.parametrize(("name", "used"), [("default", 2000), ("base", 1000)])
def test_the_held_pairs_are_those_that_the_first_results_left(name, used, folder):
    profile = load_profile(name, task="snli", data=folder)
    first, held = measured_on(profile), measured_on(profile.on("snli-held"))
    both = list(zip(first.texts + held.texts, first.second + held.second, strict=True))
    whole = TASKS["snli"].split("test", folder)
    assert both == list(zip(whole.texts, whole.second, strict=True))  # in the stored order
    assert len(set(both)) == N_PAIRS and len(first) == used
    stored = [one for one in measurements.found("one_head", "pruning_curve") if one.task == "snli"]
    measured = {one.n_examples for one in stored if one.model == profile.model}
    assert measured == {used}


@pytest.mark.parametrize("name", ["default", "base"])
def test_they_are_measured_with_the_models_of_the_whole_task(name):
    held = load_profile(name, task="snli-held")
    first = held.on("snli")
    assert recipe(held, 2) == recipe(first, 2)
    assert weights_path(held.model, recipe(held, 2)) == weights_path(first.model, recipe(first, 2))
    assert (held.n_selection, held.n_domain, held.domains) == (5000, None, ["sick"])
    assert (held.seeds, held.further_seeds) == (first.seeds, first.further_seeds)


def test_what_was_passed_over_is_in_the_signature():
    held = load_profile("default", task="snli-held")
    for name in ("one_head", "best_heads", "across_domains", "pruning_curve"):
        measurement = MEASUREMENTS[name]
        for part in measurement.parts(held, "encoder", "snli-held"):

            def made(profile, measurement=measurement, part=part):
                return signature(measurement, "encoder", profile, "snli-held", part)

            assert made(held)["parameters"]["n_used"] == 2000
            other = dataclasses.replace(held, n_used=1000)
            assert made(other)["digest"] != made(held)["digest"]
    assert "all_but_one" not in made(held)["own"]["needs"]  # nothing is chosen on test pairs


def test_a_part_of_a_task_is_measured_on_the_rest(smoke, monkeypatch):
    whole = TASKS["synthetic"]
    part = dataclasses.replace(whole, name="synthetic-held", part_of="synthetic")
    monkeypatch.setitem(TASKS, part.name, part)
    monkeypatch.setattr("headprune_lib.replication.encoder.weights.finetune", None)  # no training
    profile = load_profile("smoke", task=part.name, n_used=48, n_examples=None)
    first, held = (measurements.get("one_head", each) for each in (smoke, profile))
    assert held.key.task == "synthetic-held" and held.parts["outcomes"].runs == (
        first.parts["outcomes"].runs
    )
    assert held.n_examples == len(whole.split("test")) - first.n_examples
    everything = measurements.get(
        "one_head", load_profile("smoke", n_examples=len(whole.split("test")))
    )
    for name in ("correct", "correct_uncut"):
        joined = [*first.raw[name].T, *held.raw[name].T]
        assert (joined == everything.raw[name].T).all()
