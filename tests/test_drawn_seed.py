"""What is drawn at random can be drawn again."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FAILING = "def test_one(drawn_seed):\n    raise AssertionError(f'drew {drawn_seed}')\n"
NINE_CASES = """
import pytest

@pytest.mark.drawn(4)
@pytest.mark.parametrize("case", range(9))
def test_one(case):
    raise AssertionError(f"case {case} of --seed")

def test_another():
    raise AssertionError("--seed or not")
"""


@pytest.fixture
def drawn(tmp_path):
    """Runs pytest on a module of drawn tests that fail, and returns what it says."""
    path = tmp_path / "test_one.py"

    def run(*options: str, module: str = FAILING, **environment: str) -> list[str]:
        path.write_text(module)
        command = [sys.executable, "-m", "pytest", "-p", "drawing", "-o", "addopts=", *options]
        done = subprocess.run(
            [*command, "-rs", "--rootdir", str(tmp_path), "-c", os.devnull, str(path)],
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
        return [line for line in lines if "--seed" in line or line.startswith(("E  ", "SKIPPED"))]

    return run


def test_the_seed_is_said_and_draws_the_same_again(drawn):
    first, again = drawn("--seed", "7"), drawn(HEADPRUNE_SEED="7")
    assert first == again
    assert first[0] == "drawn tests: --seed 7 draws the same again"
    assert "drawn with --seed 7" in first
    assert drawn("--seed", "8")[1] != first[1]


def test_some_cases_are_drawn_and_the_others_named_as_skipped(drawn):
    def asked(*options):
        said = drawn(*options, module=NINE_CASES)
        cases = set(re.findall(r"Error: case (\d)", "\n".join(said)))
        skipped = "".join(line for line in said if line.startswith("SKIPPED"))
        assert "-k" in options or any("--seed or not" in line for line in said)  # has no mark
        return cases, re.findall(r"\[(\d+)\].*: (.*)", skipped)

    first, skipped = asked("--seed", "7")
    assert len(first) == 3  # a quarter of nine, rounded up
    assert skipped == [("6", "1 in 4 is drawn, with --every all")]
    assert asked("--seed", "7") == (first, skipped)
    assert any(asked("--seed", str(seed))[0] != first for seed in (8, 9))
    assert asked("--every") == (set("012345678"), [])
    assert asked("--seed", "7", "-k", "one[5]")[0] == {"5"}  # who names one is given it
