"""What is committed fits what the code would make: signatures, statistics and values."""

import pytest

from headprune_lib.replication import measurements, store
from headprune_lib.replication.measurements import half_of
from headprune_lib.replication.measurements.obtaining import signature
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.store.text import plain

KEYS = [pytest.param(key, id="-".join(key)) for key in store.find()]


def test_results_are_committed():
    assert len(KEYS) >= 39


@pytest.mark.parametrize("key", KEYS)
def test_every_committed_part_has_the_signature_of_its_measurement(key):
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


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
def test_committed_values_follow_from_the_committed_outcomes(key):
    """To the last of the six digits kept, which may differ with the processor."""
    stored, measurement, half = (
        store.load(key),
        measurements.MEASUREMENTS[key.measurement],
        half_of(key),
    )
    values = measurement.summarise(
        half,
        {name: part.raw for name, part in stored.parts.items()},
        {name: part.runs for name, part in stored.parts.items()},
        measurement.statistics[half],
    )
    assert list(_differences(stored.values, plain(values, "values"))) == []


def _differences(one, two, where=""):
    if isinstance(one, dict) and isinstance(two, dict) and one.keys() == two.keys():
        for name in one:
            yield from _differences(one[name], two[name], f"{where}.{name}")
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for i, pair in enumerate(zip(one, two, strict=True)):
            yield from _differences(*pair, f"{where}[{i}]")
    elif isinstance(one, float) and isinstance(two, float | int):
        if one != pytest.approx(two, rel=2e-5, abs=1e-9):
            yield f"{where}: {one} is stored, {two} made"
    elif one != two:
        yield f"{where}: {one!r} is stored, {two!r} made"
