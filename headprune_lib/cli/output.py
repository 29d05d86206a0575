"""Tables that the commands print: layers, heads and criteria."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headprune_lib.masking import HeadTensors
    from headprune_lib.specs import AttentionLayer

Row = dict[str, Any]

WIDEST = 100  # characters of a line
# a figure of a model -> its title and its number format
FIGURES = {
    "accuracy": ("accuracy", "{:.4f}"),
    "loss": ("loss (nats, or squared error)", "{:.4f}"),
    "bleu": ("BLEU", "{:.2f}"),
    "examples_per_second": ("examples a second", "{:.1f}"),
    "parameters": ("parameters", "{:,.0f}"),
    "heads": ("heads", "{:,.0f}"),
}


def shown(figure: str, value: float) -> str:
    """Format a figure with a suitable number of digits."""
    return FIGURES[figure][1].format(value)


def layers_table(blocks: Sequence[AttentionLayer]) -> list[Row]:
    """One row per attention layer: its original size, the heads kept, and what can be removed."""
    return [
        {
            "kind": block.kind,
            "layer": block.layer + 1,
            "heads": block.n_heads,
            "kept": len(block.kept_heads),
            "kept heads": [head + 1 for head in block.kept_heads],
            "group": block.queries_per_kv,
            "width": block.head_dim,
            "removal": _removal(block),
            "known by": block.source,
            "module": block.path,
        }
        for block in blocks
    ]


def _removal(block: AttentionLayer) -> str:
    if block.why_not_prunable:
        return "none"
    if block.why_keep_groups and block.why_keep_one:
        return "all but one a group"
    return "all but one" if block.why_keep_one else "all"


def reasons_table(blocks: Sequence[AttentionLayer]) -> list[Row]:
    """One row per reason why heads cannot be removed, or not alone; empty if all can."""
    paths: dict[str, list[str]] = {}
    for block in blocks:
        reasons = [block.why_not_prunable, block.why_keep_one]
        reasons += [block.why_whole_groups, block.why_keep_groups]
        for why in dict.fromkeys(filter(None, reasons)):
            paths.setdefault(why, []).append(block.path)
    return [{"layers": len(each), "first": each[0], "why": why} for why, each in paths.items()]


def scores_table(scores: HeadTensors, by: str) -> list[Row]:
    """One row per remaining head, the lowest score first; layers and heads count from 1."""
    from headprune_lib import rank_heads  # imports torch, which `criteria` must not wait for

    return [
        {"kind": kind, "layer": layer + 1, "head": head + 1, by: float(scores[kind][layer, head])}
        for kind, layer, head in rank_heads(scores)
    ]


def compared_table(measured: Mapping[str, Mapping[str, float]]) -> list[Row]:
    """One row per figure, one column per model."""
    return [
        {"": FIGURES[name][0]}
        | {moment: shown(name, figures[name]).rjust(12) for moment, figures in measured.items()}
        for name in measured["before"]
    ]


def printed(rows: Sequence[Row], as_json: bool = False) -> str:
    """Format rows with the same columns as text: numbers right-aligned, words left-aligned.

    Columns of words are wrapped where a line would exceed 100 characters.

    >>> print(printed([{"layer": 1, "kept": [1, 2, 3, 5]}, {"layer": 12, "kept": []}]))
    layer  kept
        1  1-3 5
       12
    """
    if as_json:
        return json.dumps(list(rows), indent=1)
    if not rows:
        return ""
    from rich.console import Console  # typer brings it
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name, value in rows[0].items():
        words = isinstance(value, str | list)
        justify = "left" if words else "right"
        table.add_column(name, justify=justify, no_wrap=not words, overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    console = Console(width=WIDEST, color_system=None, markup=False, emoji=False, highlight=False)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return _ranges(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _ranges(numbers: list[int]) -> str:
    """Abbreviate ascending numbers as ranges.

    >>> _ranges([1, 2, 3, 5])
    '1-3 5'
    """
    runs = itertools.groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    ends = [[number for _, number in run] for _, run in runs]
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in ends)
