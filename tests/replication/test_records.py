"""Committed results: each was checked as it is now, and a fixed part is checked again in full."""

import warnings

import pytest

from headprune_lib.replication import measurements, store
from headprune_lib.replication.data import file_sha256
from headprune_lib.replication.measurements import half_of
from headprune_lib.replication.measurements.obtaining import signature
from headprune_lib.replication.paths import models_root
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.store import Key
from headprune_lib.replication.verification import records
from headprune_lib.replication.verification.subjects import NotAtHand, runs_of, subject_of

KEYS = store.find()
# One result a kind of summary, small ones: values again from outcomes, in every run.
RECOMPUTED = (
    Key("one_head", "reviews", "minilm"),
    Key("all_but_one", "reviews", "minilm"),
    Key("across_domains", "reviews", "minilm"),
    Key("pruning_curve", "cola", "minilm"),
    Key("along_training", "deen", "pre-norm"),
    Key("speed", "reviews", "minilm"),
)
FOUND_AGAIN = (Key("one_head", "reviews", "minilm"), Key("best_heads", "enfr", "post-norm"))


def test_every_committed_result_was_checked_as_it_is():
    known = records.read_records()
    assert records.broken(known, KEYS) == {}, "check it: headprune verify MEASUREMENT/TASK.MODEL"
    assert known.keys() == {records.name_of(key) for key in KEYS}
    if old := records.stale(known):
        warnings.warn(f"{len(old)} results were checked by other code: {old[0]}, …", stacklevel=1)


def test_records_that_do_not_stand_are_named():
    known = records.read_records()
    one, two, three = KEYS[:3]
    changed = {**known, records.name_of(one): {**known[records.name_of(one)], "result": "0"}}
    del changed[records.name_of(two)]
    record = known[records.name_of(three)]
    changed[records.name_of(three)] = {**record, "disagree": ["values"]}
    assert records.broken(changed, KEYS) == {
        records.name_of(one): "changed after it was checked",
        records.name_of(two): "was never checked",
        records.name_of(three): "was not found again: values",
    }


@pytest.mark.parametrize("key", KEYS, ids="-".join)
def test_every_part_has_the_signature_of_its_measurement(key):
    stored, measurement, half = (
        store.load(key),
        measurements.MEASUREMENTS[key.measurement],
        half_of(key),
    )
    profile = load_profile(stored.profile)
    if half == "encoder":
        profile = profile.on(key.task)
    else:
        profile = load_profile(stored.profile, translation_model=key.model)
    assert stored.statistics == store.fingerprint(measurement.name, measurement.statistics[half])
    for name, part in stored.parts.items():
        made = signature(measurement, half, profile, key.task, name, registered=True)
        assert part.signature == made, name


@pytest.mark.parametrize("key", RECOMPUTED, ids="-".join)
def test_values_follow_from_outcomes(key):
    assert records.values_follow(store.load(key)).agrees


@pytest.mark.slow
@pytest.mark.parametrize("key", FOUND_AGAIN, ids="-".join)
def test_drawn_outcomes_are_found_again_on_committed_weights(key):
    quantities = records.found_again(store.load(key), drawn_seed=0, n_parts=1)
    assert len(quantities) >= records.CELLS
    assert [quantity for quantity in quantities if not quantity.agrees] == []


@pytest.mark.nightly
@pytest.mark.parametrize("key", KEYS, ids="-".join)
def test_every_result_is_found_again(key):
    record, quantities = records.check(key)
    assert quantities and record["disagree"] == []


@pytest.mark.slow
def test_all_committed_weights_were_measured_on():
    hashes = {file_sha256(path) for path in models_root().glob("*.safetensors")}
    here = set()
    for key in KEYS:
        if half_of(key) == "language":  # nobody trains these
            continue
        result = store.load(key)
        for run in runs_of(result):
            try:
                subject_of(result, run)
                here.add(run["weights_sha256"])
            except NotAtHand:
                assert run.get("weights_sha256") not in hashes
    assert here == hashes
