"""Test pairs that the first results left: the same text and models, another result."""

import json

import pytest

from headprune_lib.replication import store
from headprune_lib.replication.data import TASKS, Texts
from headprune_lib.replication.models.encoders import recipe, weights_path
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.setups import EncoderSubject

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


def measured_on(profile) -> Texts:
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
    key = store.Key("pruning_curve", "snli", profile.model)
    assert json.loads(key.path().read_text())["n_examples"] == used
    # and with the models of the whole task
    held, first = load_profile(name, task="snli-held"), load_profile(name, task="snli")
    assert recipe(held, 2) == recipe(first, 2)
    assert weights_path(held.model, recipe(held, 2)) == weights_path(first.model, recipe(first, 2))
    assert (held.n_selection, held.n_domain, held.domains) == (5000, None, ["sick"])
    assert (held.seeds, held.further_seeds) == (first.seeds, first.further_seeds)
