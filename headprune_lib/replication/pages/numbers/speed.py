"""Numbers of the page "Speed"."""

from __future__ import annotations

from typing import Any

from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.tables.pages import NOT_MEASURED, estimate
from headprune_lib.replication.store.results import Result


def speed(table4: Result) -> Numbers:
    """Table 4: how many times as fast with half of the heads removed, and how much smaller."""
    finetuned, shape = table4.values["finetuned"], table4.values["shape"]

    def ratio(size: int, of: dict[str, Any] = finetuned) -> str:
        """At a batch size, which a run may leave out."""
        timed = [row for row in of["speed"] if row["batch_size"] == size]
        return estimate(timed[0]["ratio"], timed[0]["interval"]) if timed else NOT_MEASURED

    return {
        "n": finetuned["n_sentences"],
        **{f"ratio_{size}": ratio(size) for size in (1, 4, 16, 64)},
        **{f"shape_ratio_{size}": ratio(size, shape) for size in (16, 64)},
        "shape_share": 100 * shape["attention"][0] / shape["parameters"][0],
        "shape_saved": 100 * (1 - shape["file"][1] / shape["file"][0]),
    }


def precision(found: Result) -> Numbers:
    """Importance in bfloat16 beside float32."""
    values = found.values
    return {
        "rank": estimate(values["spearman"], values["spearman_interval"]),
        "first_half": 100 * values["first_half"],
    }
