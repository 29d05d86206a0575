"""Results of the profile ``smoke``, measured once for the tests of all pages' numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import pytest

from headprune_lib.replication import measurements
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.store.results import Result


@pytest.fixture(scope="package")
def result(tmp_path_factory) -> Iterator[Callable[..., Result]]:
    """``result("figure1b")`` is the smoke profile's; ``model`` and ``task`` give it another name."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("numbers")
        patch.setenv("HEADPRUNE_RESULTS", str(folder / "results"))
        patch.setenv("HEADPRUNE_CACHE", str(folder / "cache"))
        smoke = load_profile("smoke")
        yield lambda name, **names: dataclasses.replace(measurements.get(name, smoke), **names)
