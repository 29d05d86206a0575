"""Prove that results kept their numbers over a change of names and layout.

``python tests/compare_values.py 4a988ac`` compares the values of every result at that commit, the
last one with a file for each figure of the paper, with those of today: every number and text, to
the last digit. It prints what differs, and exits with 1 if anything does. New names in a result's
values are allowed, lost ones are not.
"""

from __future__ import annotations

import json
import subprocess
import sys

from headprune_lib.replication import paper, store
from headprune_lib.replication.store import Key


def before(commit: str) -> dict[str, dict]:
    """The results of a commit, by path."""
    listed = _git("ls-tree", "-r", "--name-only", commit, "data/results").decode().split()
    return {
        path: json.loads(_git("show", f"{commit}:{path}"))
        for path in listed
        if path.endswith(".json") and "/bench." not in path
    }


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], capture_output=True, check=True).stdout


def keys_of(old: dict) -> list[tuple[Key, dict]]:
    """Where the values of an old result are today: a result of two language pairs is two now."""
    name, task, model = old["artifact"], old["task"], old["model"]
    if name == "quality":
        return [
            (Key("quality", pair, "post-norm"), values) for pair, values in old["values"].items()
        ]
    artifact = paper.ARTIFACTS.get(name)
    measurement = artifact.measurement if artifact else name
    translated = task in ("enfr", "deen")
    return [(Key(measurement, task, "post-norm" if translated else model), old["values"])]


def differences(old: object, new: object, where: str = "") -> list[str]:
    """Every place at which two values differ; names that are new are none."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            line
            for name in old
            for line in (
                differences(old[name], new[name], f"{where}.{name}")
                if name in new
                else [f"{where}.{name} is gone"]
            )
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            line
            for i, pair in enumerate(zip(old, new, strict=True))
            for line in differences(*pair, f"{where}[{i}]")
        ]
    return [] if old == new else [f"{where}: {old!r} is now {new!r}"]


def main(commit: str) -> int:
    found, compared, numbers = [], set(), 0
    for path, old in before(commit).items():
        for key, values in keys_of(old):
            stored = store.stored(key)
            compared.add(key)
            numbers += json.dumps(values).count(",") + 1
            found += (
                [f"{path}: {key} is not stored"]
                if stored is None
                else [
                    f"{path} -> {'/'.join(key)}{line}"
                    for line in differences(values, stored.values)
                ]
            )
    print("\n".join(found))
    print(f"{len(compared)} results, {numbers} values, {len(found)} differences")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
