"""Every stored result: when, where, how long, with which versions, and whether it is checked here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from headprune_lib.replication.data import file_sha256
from headprune_lib.replication.pages.tables.verdicts import named
from headprune_lib.replication.paths import models_root
from headprune_lib.replication.store import Part, Result
from headprune_lib.replication.titles import machine

_WITHOUT = ("task", "model")  # the row says them already


def status_table(results: Iterable[Result]) -> pd.DataFrame:
    """One row a measurement run; parts that were measured in one go share a row."""
    committed = committed_weights()
    rows = [row for result in results for row in rows_of(result, committed)]
    return pd.DataFrame(rows).sort_values("measured", ascending=False, kind="stable")


def rows_of(result: Result, committed: frozenset[str]) -> Iterator[dict[str, str]]:
    """One row for all parts of a result that were measured in one go.

    Args:
        committed: SHA-256 of the weights that the project holds.
    """
    together: dict[tuple, list[tuple[str, Part]]] = {}
    for name, part in result.parts.items():
        measured = part.provenance
        key = (measured["date"], measured["seconds"], checked(part, committed))
        together.setdefault(key, []).append((name, part))
    for (date, seconds, found), parts in together.items():
        measured = parts[0][1].provenance
        packages = measured["packages"]
        yield {
            "result": named(result).replace("_", " "),
            "measured": date[:10],
            "machine": machine(measured["hardware"]),
            "minutes": f"{seconds / 60:.1f}",
            "versions": f"Python {measured['python']}, torch {packages['torch']}, "
            f"transformers {packages['transformers']}",
            "checked": found,
            "signature": signature_line(parts),
        }


def signature_line(parts: list[tuple[str, Part]]) -> str:
    """What parts that were measured together depend on, ``key:value`` separated by bars.

    The last entry is the start of each signature's digest, which fits parameters, text, weights
    and recipes of training.
    """
    _, first = parts[0]
    names = [name for name, _ in parts]
    words = [] if names == ["outcomes"] else [f"parts:{','.join(names)}"]
    for name, value in {**first.signature["parameters"], **first.signature["own"]}.items():
        if name not in (*_WITHOUT, "order", "needs") and value is not None:
            words.append(f"{name}:{_short(value)}")
    seeds = sorted({run["seed"] for _, part in parts for run in part.runs if "seed" in run})
    words += [f"seeds:{_short(seeds)}"] if seeds else []
    words.append(f"version:{first.signature['measurement']}")
    words.append("sha256:" + ",".join(part.signature["digest"][:8] for _, part in parts))
    return "|".join(words)


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "+".join(f"{name}={_short(one)}" for name, one in value.items() if one is not None)
    if isinstance(value, list):
        every = [_short(one) for one in value]
        return ",".join(every) if len(every) <= 5 else f"{every[0]}..{every[-1]}({len(every)})"
    return str(value)


def checked(part: Part, committed: frozenset[str]) -> str:
    """Of how many trainings the weights are committed: those are measured again by every test run."""
    weights = {run["weights_sha256"] for run in part.runs if "weights_sha256" in run}
    held = len(weights & committed)
    if not weights:
        return "no: weights not kept"
    if held == len(weights):
        return "yes"
    return f"{held} of {len(weights)} trainings" if held else "no: weights not committed"


def committed_weights() -> frozenset[str]:
    """SHA-256 of every file of weights that the project holds."""
    return frozenset(file_sha256(path) for path in models_root().glob("*.safetensors"))
