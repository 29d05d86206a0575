"""Folders that the processes of a run share, and Python in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def python(code, *arguments, ends=0, cwd=None, without=(), **environment):
    """Run Python in a process of its own, and return it when it has ended as it should.

    Args:
        without: prefixes of environment variables that are not passed on.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(without)} | environment
    words = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd, env=kept)
    assert done.returncode == ends, done.stderr[-3000:] + done.stdout[-2000:]
    return done


def made_once(
    tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]
) -> Path:
    """A folder that all workers share: one of them makes it, the others wait for it.

    Args:
        make: fills the folder that it is given; an unfinished folder is never seen.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            unfinished = folder.with_name(f"{name}-unfinished")
            make(unfinished)
            unfinished.rename(folder)
    return folder
