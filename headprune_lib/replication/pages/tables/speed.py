"""The table of ``headprune bench``."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from headprune_lib.replication.pages.tables.pages import estimate

__all__ = [
    "bench_table",
]


def bench_table(path: Path) -> pd.DataFrame:
    """What ``headprune bench`` stored: ratios of seconds, with floor and target; empty if nothing."""
    columns = ["time of", "over the time of", "ratio (quartiles)", "floor", "target", "met"]
    if not path.is_file():
        return pd.DataFrame(columns=columns)
    rows, stored = [], json.loads(path.read_text("utf-8"))["rows"]
    for row in stored:
        target = row["target"]
        bound = float(target.split()[-1]) if target else 0.0
        met = row["ratio"] <= bound if "most" in target else row["ratio"] >= bound
        rows.append(
            (
                row["what"],
                row["reference"],
                estimate(row["ratio"], row["quartiles"]),
                f"{row['floor']:.2f}" if row["floor"] else "–",
                target or "–",
                ("yes" if met else "no") if target else "–",
            )
        )
    table = pd.DataFrame(rows, columns=columns)
    if any(row.get("n") for row in stored):
        table["each a second"] = [
            f"{row['n'] / row['seconds']:.0f}, {row['n'] / row['reference_seconds']:.0f}"
            for row in stored
        ]
    return table
