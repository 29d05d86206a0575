"""Benchmarks of masking, scoring and removal: medians of ratios in one run, with floors.

One file keeps the last timings of each machine, so that machines can be compared.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headprune_lib.messages import unknown
from headprune_lib.replication.store import plain
from headprune_lib.replication.store.files import replace_files
from headprune_lib.replication.titles import machine

if TYPE_CHECKING:
    from headprune_lib.replication.profiles import Profile

SCORES_BY = "scores by "
"""Prefix of the name of a row of ``criteria``; the criterion follows."""

_BENCHES = {
    "encoder": "encoder.rows",
    "criteria": "encoder.criteria",
    "sweeps": "translation.sweeps",
    "onnx": "encoder.graphs",  # ONNX is an extra
}


@dataclasses.dataclass(frozen=True)
class Row:
    """One comparison. ``ratio`` is the median over rounds of seconds / reference seconds.

    ``floor`` is the ratio that the floating-point operations alone would allow.
    """

    what: str
    reference: str
    seconds: float
    reference_seconds: float
    ratio: float
    quartiles: tuple[float, float]
    floor: float | None
    target: str


def compare(
    what: str,
    function: Callable[[], object],
    reference: str,
    other: Callable[[], object],
    rounds: int,
    *,
    floor: float | None = None,
    target: str = "",
) -> Row:
    """Time two functions alternately, so that a slower moment of the machine hits both.

    Both run once to warm up, then ``rounds`` times; see :class:`Row` for the rest.
    """
    from tqdm import tqdm

    seconds = np.empty((rounds + 1, 2))
    for pair in tqdm(seconds, desc=f"{what} / {reference}", unit="round"):
        pair[:] = _seconds(function), _seconds(other)
    seconds = seconds[1:]
    low, ratio, high = np.quantile(seconds[:, 0] / seconds[:, 1], [0.25, 0.5, 0.75]).tolist()
    return Row(what, reference, *np.median(seconds, 0).tolist(), ratio, (low, high), floor, target)


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def bench(half: str, profile: Profile, *, n_sentences: int = 256, rounds: int = 5) -> list[dict]:
    """Run every comparison of a half, and return dicts of :class:`Row`'s fields.

    ``"criteria"`` in place of a half compares the time of scores, ``"sweeps"`` that of the
    translator's losses under each cut, ``"onnx"`` graphs with all and half of the encoder's heads.

    Raises:
        ValueError: an unknown half.
    """
    if half not in _BENCHES:
        raise ValueError(unknown("half", half, _BENCHES))
    module, _, name = _BENCHES[half].partition(".")
    rows = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    return [dataclasses.asdict(row) for row in rows(profile, n_sentences, rounds)]


def read_runs(path: Path) -> list[dict[str, Any]]:
    """``{"rows": …, "provenance": …}`` of each machine, the latest first; none without a file."""
    if not path.is_file():
        return []
    runs = json.loads(path.read_text("utf-8"))["machines"]
    return sorted(runs, key=lambda run: run["provenance"]["date"], reverse=True)


def store_run(path: Path, rows: list[dict], provenance: dict[str, Any]) -> None:
    """Add a machine's run to a file, in place of the same machine's earlier one."""
    name = machine(provenance["hardware"])
    others = [run for run in read_runs(path) if machine(run["provenance"]["hardware"]) != name]
    content = {"machines": [{"rows": rows, "provenance": provenance}, *others]}
    replace_files({path: (json.dumps(plain(content), indent=1, sort_keys=True) + "\n").encode()})
