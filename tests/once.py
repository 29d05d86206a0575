"""What is made once a run, whichever worker needs it first."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def made_once(
    tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]
) -> Path:
    """A folder that all workers share: one of them makes it, the others wait for it.

    Args:
        make: fills the folder that it is given; what it leaves unfinished is never seen.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            unfinished = folder.with_name(f"{name}-unfinished")
            make(unfinished)
            unfinished.rename(folder)
    return folder
