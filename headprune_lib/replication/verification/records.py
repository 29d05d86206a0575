"""Records of the checks of committed results, each done once and valid while its file is the same.

A check takes minutes, and tells nothing new while the result is unchanged: its file contains the
hashes of its outcomes and of the weights that it was measured on. So whoever adds or changes a
result checks it (``headprune verify KEY``) and commits the record; tests only compare hashes.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headprune_lib.replication import store
from headprune_lib.replication.data import file_sha256
from headprune_lib.replication.measurements import MEASUREMENTS
from headprune_lib.replication.measurements.obtaining import half_of
from headprune_lib.replication.paths import cache_root, project_root, results_root
from headprune_lib.replication.store import Key, Result, plain
from headprune_lib.replication.store.files import replace_files
from headprune_lib.replication.verification.again import (
    NotAtHand,
    Quantity,
    found_again,
    not_at_hand,
    profile_of,
)

Record = dict[str, Any]
"""Hash of the result, version of its measurement, what was compared and what was not at hand."""

RELATIVE, ABSOLUTE = 2e-5, 1e-9
"""How far a value may be off: rounding may move the last of its six stored digits."""


def records_path() -> Path:
    """The file of all records."""
    return project_root() / "data" / "verified.json"


def read_records() -> dict[str, Record]:
    """``measurement/task.model`` -> its record."""
    return json.loads(records_path().read_text("utf-8"))


def name_of(key: Key) -> str:
    """The name that a result's record is filed under."""
    return f"{key.measurement}/{key.task}.{key.model}"


def check(key: Key, *, drawn_seed: int = 0) -> tuple[Record, list[Quantity]]:
    """Compute a committed result's values again, and measure it again on drawn texts.

    Args:
        drawn_seed: the seed for drawing texts.

    Returns:
        the record, and everything that was compared.

    Raises:
        FileNotFoundError: there is no such result.
        OtherWeights: the committed weights are not those that the result was measured on.
    """
    result = store.load(key)
    profile, quantities = profile_of(result), [values_follow(result)]
    try:
        folder = cache_root() / "journals" / "verified" / name_of(result.key)
        quantities += found_again(result, profile, folder, drawn_seed=drawn_seed)
        missing = "; ".join(not_at_hand(result, profile))
    except NotAtHand as reason:
        missing = str(reason)
    record = {
        "result": file_sha256(key.path()),  # it contains the hashes of its outcomes
        "weights": sorted(
            {run.get("weights_sha256", "") for part in result.parts.values() for run in part.runs}
        ),
        "version": MEASUREMENTS[key.measurement].version,
        "found again": [
            f"{quantity.name}: {quantity.found} (bound: {quantity.bound})"
            for quantity in quantities
        ],
        "disagree": [quantity.name for quantity in quantities if not quantity.agrees],
        "not at hand": missing,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    return record, quantities


def values_follow(result: Result) -> Quantity:
    """Compare the stored values with those that the statistics compute from the stored outcomes."""
    measurement, half = MEASUREMENTS[result.measurement], half_of(result)
    values = plain(measurement.values_of(half, result.parts), "values")
    differing = list(differences(result.values, values))
    difference = "; ".join(differing[:3]) or "the same"
    return Quantity("values", "", difference, f"{RELATIVE} of each", not differing)


def differences(stored: Any, found: Any, path: str = "") -> Iterator[str]:
    """Each place where two values differ by more than rounding."""
    if isinstance(stored, Mapping) and isinstance(found, Mapping) and stored.keys() == found.keys():
        for name in stored:
            yield from differences(stored[name], found[name], f"{path}.{name}")
    elif isinstance(stored, list) and isinstance(found, list) and len(stored) == len(found):
        for i, pair in enumerate(zip(stored, found, strict=True)):
            yield from differences(*pair, f"{path}[{i}]")
    elif isinstance(stored, float) and isinstance(found, float | int):
        if not math.isclose(stored, found, rel_tol=RELATIVE, abs_tol=ABSOLUTE):
            yield f"{path} is {stored}, computed again {found}"
    elif stored != found:
        yield f"{path} is {stored!r}, computed again {found!r}"


def write_records(records: Mapping[str, Record]) -> None:
    """Add records of committed results to the file; those of results that are gone are removed.

    A record of a check for which something was not at hand does not replace one of a whole check of
    the same result.
    """
    if results_root() != project_root() / "data" / "results":
        return
    committed = {name_of(key) for key in store.find()}
    known = read_records() if records_path().exists() else {}
    whole = {
        name
        for name in known.keys() & records.keys()
        if not known[name]["not at hand"]
        and records[name]["not at hand"]
        and all(known[name][field] == records[name][field] for field in ("result", "version"))
    }
    added = {name: record for name, record in records.items() if name not in whole}
    kept = {
        name: record for name, record in sorted({**known, **added}.items()) if name in committed
    }
    text = json.dumps(kept, indent=1, ensure_ascii=False, sort_keys=True)
    replace_files({records_path(): (text + "\n").encode()})


def broken(records: Mapping[str, Record], keys: Iterable[Key]) -> dict[str, str]:
    """Results without a valid record -> the reason."""
    reasons = {}
    for key in keys:
        record = records.get(name_of(key))
        if record is None:
            reasons[name_of(key)] = "was never checked"
        elif record["result"] != file_sha256(key.path()):
            reasons[name_of(key)] = "changed after it was checked"
        elif record["version"] != MEASUREMENTS[key.measurement].version:
            reasons[name_of(key)] = "was checked at another version of its measurement"
        elif record["disagree"]:
            reasons[name_of(key)] = f"was not found again: {', '.join(record['disagree'])}"
    return reasons
