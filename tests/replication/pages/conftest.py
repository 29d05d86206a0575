"""Pages only read what is measured: their tests share it, a folder a worker."""

import shutil
from pathlib import Path

import pytest

from headprune_lib.replication.profiles import Profile, load_profile


@pytest.fixture(scope="session")
def measured(trained, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("measured")
    shutil.copytree(trained, folder / "cache")
    return folder


@pytest.fixture(scope="module")
def smoke(measured) -> Profile:
    """Profile ``smoke`` with the results of all modules that came before; none may change one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADPRUNE_RESULTS", str(measured / "results"))
        patch.setenv("HEADPRUNE_CACHE", str(measured / "cache"))
        yield load_profile("smoke")
