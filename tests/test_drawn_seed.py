"""What is drawn at random can be drawn again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.fixture
def drawn(tmp_path):
    """Runs pytest on one drawn test that fails, and returns what it says."""
    path = tmp_path / "test_one.py"
    path.write_text("def test_one(drawn_seed):\n    raise AssertionError(f'drew {drawn_seed}')\n")

    def run(*options: str, **environment: str) -> list[str]:
        command = [sys.executable, "-m", "pytest", "-p", "drawing", "-o", "addopts=", *options]
        done = subprocess.run(
            [*command, "--rootdir", str(tmp_path), "-c", os.devnull, str(path)],
            capture_output=True,
            text=True,
            check=False,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(TESTS),
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # they take seconds to import
                **environment,
            },
        )
        lines = done.stdout.splitlines()
        return [line for line in lines if "--seed" in line or line.startswith("E  ")]

    return run


def test_the_seed_is_said_and_draws_the_same_again(drawn):
    first, again = drawn("--seed", "7"), drawn(HEADPRUNE_SEED="7")
    assert first == again
    assert first[0] == "drawn tests: --seed 7 draws the same again"
    assert "drawn with --seed 7" in first
    assert drawn("--seed", "8")[1] != first[1]
