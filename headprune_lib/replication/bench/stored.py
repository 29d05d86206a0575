"""The file of ``headprune bench``: what each machine timed last, so that machines stand together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headprune_lib.replication.store import plain
from headprune_lib.replication.store.files import replace_files
from headprune_lib.replication.titles import machine


def read_runs(path: Path) -> list[dict[str, Any]]:
    """``{"rows": …, "provenance": …}`` of each machine, the latest first; none without a file."""
    if not path.is_file():
        return []
    runs = json.loads(path.read_text("utf-8"))["machines"]
    return sorted(runs, key=lambda run: run["provenance"]["date"], reverse=True)


def store_run(path: Path, rows: list[dict], provenance: dict[str, Any]) -> None:
    """Add a machine's run to a file, in place of what the same machine timed before."""
    name = machine(provenance["hardware"])
    others = [run for run in read_runs(path) if machine(run["provenance"]["hardware"]) != name]
    found = {"machines": [{"rows": rows, "provenance": provenance}, *others]}
    replace_files({path: (json.dumps(plain(found), indent=1, sort_keys=True) + "\n").encode()})
