"""What the commands print: rows of layers, heads and criteria."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from torch import nn

from headprune_lib.criteria import CRITERIA
from headprune_lib.discovery import discovered
from headprune_lib.heads import HeadTensors, find_heads
from headprune_lib.specs import AttentionBlock

Row = dict[str, Any]

TITLES = {
    "accuracy": "accuracy",
    "loss": "loss (nats)",
    "bleu": "BLEU",
    "examples_per_second": "examples a second",
    "parameters": "parameters",
    "heads": "heads",
}
_FORMATS = {
    "accuracy": "{:.4f}",
    "loss": "{:.4f}",
    "bleu": "{:.2f}",
    "examples_per_second": "{:.1f}",
}


def structure(model: nn.Module) -> list[Row]:
    """One row a layer of attention.

    Its kind and number (from 1), heads built, kept, in a group, their width, what can be removed.
    """
    return [
        {
            "kind": block.kind,
            "layer": block.layer + 1,
            "heads": block.n_heads,
            "kept": len(block.kept),
            "group": block.group,
            "width": block.width,
            "removal": removal(block),
            "known by": block.how,
            "module": block.path,
        }
        for block in find_heads(model)
    ]


def removal(block: AttentionBlock) -> str:
    """What of a layer can be removed, in words."""
    if block.masks_only:
        return "none"
    if block.keeps_groups and block.keeps_one:
        return "all but one a group"
    return "all but one" if block.keeps_one else "all"


def kept_back(model: nn.Module) -> list[Row]:
    """One row a reason why heads of a model cannot go, or not alone; empty where all can."""
    found: dict[str, list[str]] = {}
    for block in find_heads(model):
        reasons = block.masks_only, block.keeps_one, block.whole_groups, block.keeps_groups
        for why in dict.fromkeys(filter(None, reasons)):
            found.setdefault(why, []).append(block.path)
    return [{"layers": len(paths), "first": paths[0], "why": why} for why, paths in found.items()]


def left_out(model: nn.Module) -> list[Row]:
    """One row an attention module that was seen and not taken: its name, and why."""
    return [{"module": path, "not taken": why} for path, why in discovered(model).refused.items()]


def scores_table(scores: HeadTensors, by: str) -> list[Row]:
    """One row a head, the lowest score first, layers and heads from 1; heads removed left out.

    Args:
        by: name of the criterion, which is that of the column.
    """
    rows = [
        {"kind": kind, "layer": layer + 1, "head": head + 1, by: value}
        for kind, values in scores.items()
        for layer, row in enumerate(values.tolist())
        for head, value in enumerate(row)
        if not math.isnan(value)
    ]
    return sorted(rows, key=lambda row: row[by])


def criteria_table() -> list[Row]:
    """One row a criterion: its name, whether it is normalised, and what its scores are."""
    return [
        {"name": name, "normalised": one.normalize or "no", "scores": one.summary}
        for name, one in sorted(CRITERIA.items())
    ]


def printed(rows: Sequence[Row], as_json: bool = False) -> str:
    """Rows with the same columns as text: numbers to the right, words to the left.

    >>> print(printed([{"layer": 1, "module": "a"}, {"layer": 12, "module": "bc"}]))
    layer  module
        1  a
       12  bc
    """
    if as_json:
        return json.dumps(list(rows), indent=1)
    if not rows:
        return ""
    columns = list(rows[0])
    cells = [columns, *([_cell(row[name]) for name in columns] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    left = [isinstance(rows[0][name], str) for name in columns]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if words else cell.rjust(width)
            for cell, width, words in zip(line, widths, left, strict=True)
        ).rstrip()
        for line in cells
    )


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def shown(name: str, value: float) -> str:
    """A figure of a model with the digits that it deserves."""
    return _FORMATS.get(name, "{:,.0f}").format(value)
