"""Mutation testing: faults are put into the code one at a time to see if the tests notice them.

``python tests/mutate.py`` puts each entry of ``tests/mutations/*.toml`` into a copy of the project,
runs the fast tests, then the slow ones if those notice nothing, and writes what noticed it into
``tests/goldens/mutations.csv``, each row as soon as it is known. Entries that have a row and have
not changed since are skipped, so that an interrupted run continues. With words as arguments, only
entries whose file or description contains one of them are tried, row or not. With ``--fast`` no
slow test is run: what fast ones do not notice is ``unknown`` until a run without it.

An entry is listed under the name of its file and has ``old`` (there exactly once), ``new`` and
``what`` (the fault). The tests that noticed it the last time are tried first.
"""

from __future__ import annotations

import csv
import hashlib
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "goldens" / "mutations.csv"
COLUMNS = ("file", "fault", "noticed by", "first test that fails", "entry")
COPIED = ("headprune_lib", "notebooks", "tests")
WORKERS = 2
FAST, SLOW = "not slow and not nightly", "slow and not nightly"
Row = dict[str, str]


def entries() -> list[Row]:
    """All mutations, each with ``entry``, a hash of its text; ValueError if one does not fit."""
    known = []
    for path in sorted((ROOT / "tests" / "mutations").glob("*.toml")):
        for file, listed in tomllib.loads(path.read_text("utf-8")).items():
            for entry in listed:
                times = (ROOT / file).read_text("utf-8").count(entry["old"])
                if times != 1:
                    raise ValueError(f"{entry['what']!r} is found {times} times in {file}")
                text = "\n".join([file, *(entry[name] for name in ("old", "new", "what"))])
                digest = hashlib.sha256(text.encode()).hexdigest()[:8]
                known.append({**entry, "file": file, "entry": digest})
    return known


def copied(folder: Path) -> Path:
    """A copy of the project in which code and tests may change; the rest is linked."""
    folder.mkdir()
    for path in ROOT.iterdir():
        if path.name in COPIED:
            ignored = shutil.ignore_patterns("__pycache__", "mutations")
            shutil.copytree(path, folder / path.name, ignore=ignored)
        elif path.name not in (".git", "_build"):
            (folder / path.name).symlink_to(path)
    return folder


def first_failure(folder: Path, tests: list[str], marks: str) -> str | None:
    """The first test of the given files that fails there; None if all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    options = {"cwd": folder, "env": environment, "capture_output": True, "text": True}
    done = subprocess.run([*command, "-n", "0", "-m", marks, *tests], check=False, **options)
    if done.returncode in (0, 5):  # all passed, or none has these marks
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", done.stdout, re.MULTILINE)
    return failed[1] if failed else f"pytest ended with {done.returncode}"


def put(path: Path, text: str) -> None:
    """Write a module, and delete its compiled files, whose time and size may still match."""
    path.write_text(text, "utf-8")
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
        compiled.unlink()


def noticed(entry: Row, likely: str, folders: queue.Queue[Path], fast: bool) -> Row:
    """Try one mutation in a copy that is not in use, and return its row of the table.

    Args:
        likely: the file of tests to try first, or empty.
    """
    folder = folders.get()
    path = folder / entry["file"]
    original = path.read_text("utf-8")
    put(path, original.replace(entry["old"], entry["new"]))
    tier, failed = "unknown" if fast else "nothing", None
    for name, marks in (("check", FAST), ("test", SLOW))[: 1 if fast else 2]:
        known = likely and first_failure(folder, [likely], marks)
        if failed := known or first_failure(folder, ["tests"], marks):
            tier = name
            break
    put(path, original)
    folders.put(folder)
    row = (entry["file"], entry["what"], tier, failed or "", entry["entry"])
    print(*row[:-1], sep=" | ", flush=True)
    return dict(zip(COLUMNS, row, strict=True))


def write(rows: list[Row]) -> None:
    """Write the table, the whole file at once."""
    part = TABLE.with_suffix(".part")
    with part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: (row["file"], row["fault"])))
    part.replace(TABLE)


def main(words: list[str]) -> int:
    """Try the mutations and write the table; return 1 if one is not known to be noticed."""
    fast, words = "--fast" in words, [word for word in words if word != "--fast"]
    listed, lines = entries(), TABLE.read_text("utf-8").splitlines() if TABLE.exists() else []
    rows = {row["fault"]: row for row in csv.DictReader(lines)}
    # the row of an entry that has changed stays until it is tried again, and says what to try first
    rows = {entry["what"]: rows[entry["what"]] for entry in listed if entry["what"] in rows}
    files = {fault: row[COLUMNS[3]].partition("::")[0] for fault, row in rows.items()}
    likely = {fault: file for fault, file in files.items() if (ROOT / file).is_file()}
    tiers = {row["entry"]: row["noticed by"] for row in rows.values()}
    done = {digest for digest, tier in tiers.items() if fast or tier != "unknown"}
    named = [e for e in listed if any(word in e["file"] + e["what"] for word in words)]
    asked = named if words else [entry for entry in listed if entry["entry"] not in done]
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(WORKERS) as pool:
        folders: queue.Queue[Path] = queue.Queue()
        for number in range(min(WORKERS, len(asked))):
            folders.put(copied(Path(name) / str(number)))
        tries = [pool.submit(noticed, e, likely.get(e["what"], ""), folders, fast) for e in asked]
        for future in as_completed(tries):
            rows[future.result()["fault"]] = future.result()
            write(list(rows.values()))
    found = [row["noticed by"] for row in rows.values()]
    print({tier: f"{found.count(tier)} of {len(listed)}" for tier in dict.fromkeys(found)})
    return int("nothing" in found or "unknown" in found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
