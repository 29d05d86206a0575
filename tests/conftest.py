"""What every test shares."""

import pytest
import torch

from headprune_lib.profiles import load_profile


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Profile ``smoke`` with results and cache of its own, shared by the tests of a module."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("smoke")
        patch.setenv("HEADPRUNE_RESULTS", str(folder / "results"))
        patch.setenv("HEADPRUNE_CACHE", str(folder / "cache"))
        yield load_profile("smoke")
