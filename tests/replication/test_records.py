"""Committed results: each was checked as it is now, and a fixed part is checked again in full."""

import json

import pytest

from headprune_lib.replication import measurements, store
from headprune_lib.replication.cli import gpu
from headprune_lib.replication.data import file_sha256
from headprune_lib.replication.measurements import half_of
from headprune_lib.replication.measurements.obtaining import HALF_OF, Request
from headprune_lib.replication.paths import models_root
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.store import Key
from headprune_lib.replication.verification import records
from headprune_lib.replication.verification.again import found_again, profile_of

KEYS = store.find()
ON_A_GPU = Key("speed", "synthetic", "tiny")  # the first step of `headprune gpu`
ALWAYS = Key("one_head", "reviews", "minilm")  # on a few texts, in every run


def test_every_committed_result_was_checked_as_it_is():
    known = records.read_records()
    assert records.broken(known, KEYS) == {}, "check it: headprune verify MEASUREMENT/TASK.MODEL"
    assert known.keys() == {records.name_of(key) for key in KEYS}


def test_records_that_do_not_stand_are_named():
    known = records.read_records()
    names = [records.name_of(key) for key in KEYS[:4]]
    others = ({"result": "0"}, {"disagree": ["values"]}, {"version": 0})
    changed = known | {
        name: {**known[name], **other} for name, other in zip(names, others, strict=False)
    }
    del changed[names[3]]
    assert records.broken(changed, KEYS) == {
        names[0]: "changed after it was checked",
        names[1]: "was not found again: values",
        names[2]: "was checked at another version of its measurement",
        names[3]: "was never checked",
    }


@pytest.mark.slow
def test_every_part_has_the_signature_of_its_measurement():
    for key in KEYS:
        stored = json.loads(key.path().read_text("utf-8"))
        measurement, half = measurements.MEASUREMENTS[key.measurement], half_of(key)
        statistics = measurement.statistics[half]
        assert stored["statistics"] == store.fingerprint(measurement.name, statistics)
        if key == ON_A_GPU:
            profile = load_profile("smoke", device="cuda", **gpu.read_list("default")[1][0].set)
        elif half == "encoder":
            profile = load_profile(stored["profile"]).on(key.task)
        else:
            profile = load_profile(stored["profile"], translation_model=key.model)
        for name, part in stored["parts"].items():
            request = Request(measurement, half, profile, key.task)
            made = request.signature(name, registered=True)
            assert part["signature"] == made, (key, name)
            outcomes = key.path().with_name(f"{key.task}.{key.model}.{name.replace(' ', '-')}.npz")
            assert file_sha256(outcomes) == part["raw_sha256"], outcomes


@pytest.mark.nightly
@pytest.mark.parametrize("key", KEYS, ids="-".join)
def test_every_result_is_found_again(key):
    record, quantities = records.check(key)
    assert len(quantities) > 1 or record["not at hand"]
    assert record["disagree"] == []


@pytest.mark.slow
def test_a_result_is_found_again_on_a_few_texts(tmp_path):
    result = store.load(ALWAYS)
    quantities = found_again(result, profile_of(result), tmp_path, n_texts=16)
    assert quantities  # of the trainings whose weights are committed
    assert [quantity for quantity in quantities if not quantity.agrees] == []


@pytest.mark.slow
def test_all_committed_weights_were_measured_on():
    known = records.read_records().values()
    measured = {sha256 for record in known for sha256 in record["weights"]}
    assert {file_sha256(path) for path in models_root().glob("*.safetensors")} <= measured


def test_a_check_without_all_weights_does_not_replace_a_whole_one(tmp_path, monkeypatch):
    name, path = records.name_of(ALWAYS), tmp_path / "verified.json"
    whole = {name: records.read_records()[name] | {"not at hand": ""}}
    path.write_text(json.dumps(whole))
    monkeypatch.setattr(records, "records_path", lambda: path)
    records.write_records({name: whole[name] | {"not at hand": "the weights", "found again": []}})
    assert records.read_records() == whole
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path))  # which has no committed result
    records.write_records({})
    assert records.read_records() == whole


def test_made_up_text_is_no_committed_result_of_the_default_profile():
    committed = {
        name: HALF_OF["encoder"].committed(load_profile(profile, task=name), name)[1]
        for profile, name in (("default", "synthetic"), ("default", "reviews"))
    }
    assert committed == {"synthetic": False, "reviews": True}
