"""Results of the profile ``smoke``, measured once for the tests of all pages' numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from headprune_lib.replication import measurements
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.store.results import Result


@pytest.fixture(scope="session")
def result(measured) -> Callable[..., Result]:
    """``result("figure1b")`` is the smoke profile's; ``model`` and ``task`` give it another name."""

    def get(name: str, **names: str) -> Result:
        # only while it measures: other tests of the session have folders of their own
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HEADPRUNE_RESULTS", str(measured / "results"))
            patch.setenv("HEADPRUNE_CACHE", str(measured / "cache"))
            found = measurements.get(name, load_profile("smoke"))
        return dataclasses.replace(found, **names)

    return get
