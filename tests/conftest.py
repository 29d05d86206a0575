"""Settings and fixtures that all tests share."""

import os
import random
import shutil
import tempfile
from pathlib import Path
from unittest import mock

# Set before torch is imported: tiny models gain nothing from threads, and if another worker or
# program is busy too, threads that wait for one another cost ten times as much.
os.environ.setdefault("OMP_NUM_THREADS", "1")  # kernels and subprocesses inherit it
# A cache in somebody's home folder must not change anything: all workers of a run share an empty
# one, which the process that starts them makes and removes.
for _name in [name for name in os.environ if name.startswith("HEADPRUNE_")]:
    if _name != "HEADPRUNE_TEST_HOME":
        del os.environ[_name]
if "HEADPRUNE_TEST_HOME" not in os.environ:
    _home = tempfile.TemporaryDirectory(prefix="headprune-home-")
    os.environ["HEADPRUNE_TEST_HOME"] = _home.name
os.environ["HOME"] = os.environ["HEADPRUNE_TEST_HOME"]

import pytest
import torch
from processes import made_once

from headprune_lib.replication.profiles import load_profile
from headprune_lib.specs import ATTENTION_SPECS, REGISTERED

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))  # a plugin may have imported torch


LONGEST = {"test_pages.py", "test_notebooks.py"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Handed out first, so that no worker waits for the site, built by one of them, or for the last.
    items.sort(key=lambda item: item.path.name not in LONGEST)
    for item in items:
        # tests with trained models wait for their training, and then measure
        if "trained" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
        if item.path.suffix == ".ipynb":
            item.add_marker(pytest.mark.nightly)
        if item.get_closest_marker("gpu") and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """A cache with the models of profile ``smoke``, trained once per run; copied, not used."""
    return made_once(tmp_path_factory, "trained", train_smoke)


def train_smoke(cache: Path) -> None:
    """Train the models of profile ``smoke`` into an empty cache."""
    # only where it is needed: transformers' Trainer takes seconds to import
    from headprune_lib.replication.models.encoders import finetuned
    from headprune_lib.replication.models.translators import train

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADPRUNE_CACHE", str(cache))
        profile = load_profile("smoke")
        for seed in profile.seeds:
            finetuned(profile, seed)
        for task, models in profile.translation.items():
            for model in models:
                for seed in profile.trainings(task, model):
                    train(profile, task, seed, model=model)


@pytest.fixture(scope="module")
def smoke(trained, tmp_path_factory):
    """Profile ``smoke`` with results and cache of its own, shared by the tests of a module."""
    folder = tmp_path_factory.mktemp("smoke")
    shutil.copytree(trained, folder / "cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADPRUNE_RESULTS", str(folder / "results"))
        patch.setenv("HEADPRUNE_CACHE", str(folder / "cache"))
        yield load_profile("smoke")


@pytest.fixture
def drawn_seed(request: pytest.FixtureRequest) -> int:
    """A seed for a test's random draws: its own in each test, the same in each run."""
    return random.Random(request.node.nodeid).randrange(10**6)


@pytest.fixture
def forget_taught():
    """Forget after a test what it taught with ``register_attention``."""
    registered = set(REGISTERED)
    with mock.patch.dict(ATTENTION_SPECS):
        yield
    REGISTERED.intersection_update(registered)
