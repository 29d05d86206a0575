"""Head by head: the paper, two public reproductions of it, and our own fine-tunings."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from headprune_lib.discovery import KINDS
from headprune_lib.replication.paths import reference_root
from headprune_lib.replication.published import paper

__all__ = [
    "grid",
    "layers_again_table",
    "measured_twice",
    "published_wmt",
]


@dataclass(frozen=True)
class Grid:
    """The effect of each cut that one laboratory measured, ``values`` (layers, heads)."""

    lab: str
    task: str
    kind: str
    values: np.ndarray
    p: np.ndarray | None = None


@cache
def _independent() -> dict:
    path = reference_root() / "independent_reproductions.json"
    return json.loads(path.read_text("utf-8"))


def grid(lab: str, task: str, what: str = "effects", kind: str = "self") -> Grid:
    """One grid of the project's copy of the reproductions' numbers.

    Args:
        lab: ``"Silent-Zebra"`` or ``"ljj7975"``, their repositories' owners.
        task: such as ``"MNLI"`` or ``"WMT en-fr"``.
        what: ``"effects"`` of one cut, or ``"all_but_one"``.
        kind: of attention.

    Raises:
        KeyError: there is no such grid.
    """
    for entry in _independent()["grids"]:
        if (entry["lab"], entry["task"], entry["what"], entry["kind"]) == (lab, task, what, kind):
            p = entry.get("p")
            return Grid(lab, task, kind, np.array(entry["values"]), p and np.array(p))
    raise KeyError(f"no grid of {what} by {lab} on {task}, kind {kind}")


def published_wmt() -> Grid:
    """The paper's Table 1."""
    return Grid("the paper", "WMT en-fr", "enc-enc", np.array(paper("table1")["delta_bleu"]))


def measured_twice() -> list[tuple[str, Grid, Grid]]:
    """Pairs of grids of one model's heads, with what differs between the two."""
    zebra, other = "Silent-Zebra", "ljj7975"
    found = [
        ("the test set: matched, mismatched", grid(zebra, "MNLI"), grid(zebra, "MNLI mismatched"))
    ]
    found += [
        ("the fine-tuning", grid(zebra, task), grid(other, task))
        for task in ("MNLI", "SST-2", "CoLA")
    ]
    found += [
        ("the task, in one laboratory", grid(zebra, one), grid(zebra, two))
        for one, two in (("MNLI", "SST-2"), ("MNLI", "CoLA"), ("SST-2", "CoLA"))
    ]
    found += [
        ("the task, in another laboratory", grid(other, one), grid(other, two))
        for one, two in (("MNLI", "SST-2"), ("MNLI", "CoLA"), ("MNLI", "MRPC"))
    ]
    found += [
        (
            "laboratory and test set, same weights",
            published_wmt(),
            grid(zebra, "WMT en-fr", kind="enc-enc"),
        )
    ]
    found += [
        (
            "the test set: news, web forum",
            grid(zebra, "WMT en-fr", kind=kind),
            grid(zebra, "MTNT en-fr", kind=kind),
        )
        for kind in KINDS
    ]
    return found


def layers_again_table() -> pd.DataFrame:
    """Each layer's best head alone, in the paper and again by others: change of the score."""
    settings = [
        ("BERT, MNLI (points)", "MNLI", "self", 100, paper("table3")["delta_accuracy_percent"])
    ]
    settings += [
        ("WMT en-fr (BLEU)", "WMT en-fr", kind, 1, paper("table2")[kind]["delta_bleu"])
        for kind in KINDS
    ]
    rows = []
    for model, task, kind, scale, published in settings:
        again = scale * grid("Silent-Zebra", task, "all_but_one", kind).values.max(1)
        rows += [
            {
                "model": model,
                "kind": kind,
                "layer": layer,
                "the paper": f"{theirs:+.2f}",
                "again": f"{best:+.2f}",
            }
            for layer, (theirs, best) in enumerate(zip(published, again, strict=True), 1)
        ]
    return pd.DataFrame(rows)
