"""Whether the tests notice what is wrong: faults put into the code one at a time.

``python tests/mutate.py`` applies each entry of ``tests/mutations/*.toml`` to a copy of the project, runs
the fast tests on it (those named by the entry first), then the slow ones where these notice
nothing, and writes what noticed it into ``tests/goldens/mutations.csv``. With words as arguments, only
entries whose file or description holds one of them.

An entry has ``file``, ``old`` (found in the file exactly once), ``new``, ``what`` (the fault, in words) and
``tests``, the test files that are tried first.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "goldens" / "mutations.csv"
COLUMNS = ("file", "fault", "noticed by", "first test that fails")
COPIED = ("headprune_lib", "tests")
WORKERS = 2


def entries() -> list[dict[str, str]]:
    """All mutations; raises ValueError for one whose text is not in its file exactly once."""
    found = []
    for path in sorted((ROOT / "tests" / "mutations").glob("*.toml")):
        for entry in tomllib.loads(path.read_text("utf-8"))["mutation"]:
            times = (ROOT / entry["file"]).read_text("utf-8").count(entry["old"])
            if times != 1:
                raise ValueError(
                    f"{path.name}: {entry['what']!r} is found {times} times in {entry['file']}. "
                    "Give text that is there once"
                )
            found.append(entry)
    return found


def copied(folder: Path) -> None:
    """A copy of the project in which code and tests may change; the rest are links."""
    for path in ROOT.iterdir():
        if path.name in COPIED:
            shutil.copytree(
                path, folder / path.name, ignore=shutil.ignore_patterns("__pycache__", "mutations")
            )
        elif path.name not in (".git", "_build"):
            (folder / path.name).symlink_to(path)


def first_failure(folder: Path, tests: list[str], marks: str) -> str | None:
    """The first test of the given files that fails there; None if all pass."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-rfE",
        "-p",
        "no:cacheprovider",
        "-n",
        "0",
    ]
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "-m", marks, *tests],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode in (0, 5):  # all passed, or none has these marks
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return failed[1] if failed else f"pytest ended with {done.returncode}"


def noticed(entry: dict[str, str]) -> dict[str, str]:
    """The row of the table for one mutation."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copied(folder)
        path = folder / entry["file"]
        path.write_text(path.read_text("utf-8").replace(entry["old"], entry["new"]), "utf-8")
        likely = entry["tests"].split()
        stages = (
            ("check", likely, "not slow and not nightly"),
            ("check", ["tests"], "not slow and not nightly"),
            ("test", likely, "slow and not nightly"),
            ("test", ["tests"], "slow and not nightly"),
        )
        tier, failed = "nothing", ""
        for name_of_tier, tests, marks in stages:
            if found := first_failure(folder, tests, marks):
                tier, failed = name_of_tier, found
                break
    row = (entry["file"], entry["what"], tier, failed)
    print(*row, sep=" | ", flush=True)
    return dict(zip(COLUMNS, row, strict=True))


def main(words: list[str]) -> int:
    """Try the mutations and write the table; 1 if one is noticed by nothing."""
    asked = [
        entry
        for entry in entries()
        if not words or any(word in entry["file"] + entry["what"] for word in words)
    ]
    known = {}
    if TABLE.exists():
        with TABLE.open(newline="", encoding="utf-8") as file:
            known = {(row["file"], row["fault"]): row for row in csv.DictReader(file)}
    with ThreadPoolExecutor(WORKERS) as pool:
        for row in pool.map(noticed, asked):
            known[row["file"], row["fault"]] = row
    listed = {(entry["file"], entry["what"]) for entry in entries()}
    rows = [row for key, row in sorted(known.items()) if key in listed]
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    tiers = [row["noticed by"] for row in rows]
    print(*(f"{tier}: {tiers.count(tier)} of {len(rows)}" for tier in ("check", "test", "nothing")))
    return int("nothing" in tiers)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
