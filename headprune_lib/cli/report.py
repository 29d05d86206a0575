"""A one-file report on a pruning: map of heads, curves, and figures before and after."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import torch
import transformers
from torch import nn

import headprune_lib
from headprune_lib.budgets import BudgetResult
from headprune_lib.cli.bounds import TITLES
from headprune_lib.cli.output import FIGURES, shown
from headprune_lib.cli.quality import Budget, quality
from headprune_lib.discovery import find_heads
from headprune_lib.masking import HeadTensors, head_mask, masked_heads
from headprune_lib.selection import Step
from headprune_lib.utils import Batch

_PLACES = 8  # steps at which quality is measured, from the uncut model to the pruned one
_POINTS = {"accuracy": 100, "bleu": 1}  # figures shown in points -> points per unit


def page(
    before: nn.Module,
    after: nn.Module,
    budget: Budget,
    cut: BudgetResult,
    scores: HeadTensors,
    gone: Sequence[Step],
    tested: Sequence[Batch],
    measured: Mapping[str, Mapping[str, float]],
    asked: Mapping[str, str],
) -> str:
    """Return the page as self-contained HTML.

    Args:
        gone: the steps that were removed, in order; quality is measured along them.
        tested: batches to measure it on.
        asked: the names of the ``model``, the criterion (``by``) and the text ``measured_on``.
    """
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("headprune_lib.cli", "."), autoescape=True)
    figures = measured["before"], measured["after"]
    n_gone, charts = sum(map(len, gone)), []
    if cut.curve:
        walk = [(point.heads, budget.shown(point.value)) for point in cut.curve]
        limit = budget.shown(budget.limit)
        charts.append((f"What was walked: {TITLES[budget.bound.option]}", walk, limit))
    for name, walk in _on_the_way(before, gone, tested).items():
        charts.append((f"{FIGURES[name][0]} on the way", walk, None))
    return environment.get_template("report.html.jinja").render(
        asked=asked,
        bound=f"{budget.bound.option} {budget.bound.value:g}",
        heading=f"{asked['model']}: {n_gone} of {figures[0]['heads']:.0f} heads removed",
        rows=[
            (
                FIGURES[name][0],
                *(shown(name, each[name]) for each in figures),
                _change(name, *figures),
            )
            for name in figures[0]
        ],
        maps=maps(before, after, scores),
        charts=charts,
        n_gone=n_gone,
        command=shlex.join(["headprune", *sys.argv[1:]]),
        versions={
            "headprune": headprune_lib.__version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "Python": platform.python_version(),
            "machine": f"{platform.system()} {platform.machine()}, {torch.get_num_threads()} threads",
            "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        },
    )


def maps(
    before: nn.Module, after: nn.Module, scores: HeadTensors
) -> dict[str, list[list[tuple[str, str, float]]]]:
    """For each kind, a row per layer, with each head's state, score and relative score.

    The state is ``kept``, ``removed``, ``gone`` (before this pruning) or ``none`` (no such head).
    The relative score is 0 for the lowest score of the kind and 1 for the highest.
    """
    rows: dict[str, list[list[tuple[str, str, float]]]] = {kind: [] for kind in scores}
    for block, left in zip(find_heads(before), find_heads(after), strict=True):
        values = scores[block.kind]
        known = values[~values.isnan()]
        low, span = float(known.min()), float(known.max() - known.min()) or 1.0
        cells = []
        for head, score in enumerate(values[block.layer].tolist()):
            if head in block.kept_heads:
                state = "kept" if head in left.kept_heads else "removed"
                cells.append((state, f"{score:.2g}", (score - low) / span))
            else:
                cells.append(("gone" if head < block.n_heads else "none", "", 0.0))
        rows[block.kind].append(cells)
    return rows


def _on_the_way(
    model: nn.Module, gone: Sequence[Step], tested: Sequence[Batch]
) -> dict[str, list[tuple[int, float]]]:
    """Loss and accuracy at some points between the uncut model and the pruned one."""
    walks: dict[str, list[tuple[int, float]]] = {}
    for n_steps in sorted({round(len(gone) * i / _PLACES) for i in range(_PLACES + 1)}):
        heads = [head for step in gone[:n_steps] for head in step]
        with masked_heads(model, head_mask(model, heads)):
            for name, value in quality(model, tested).items():
                walks.setdefault(name, []).append((len(heads), value))
    return walks


def _change(name: str, before: Mapping[str, float], after: Mapping[str, float]) -> str:
    if name in _POINTS:
        return f"{_POINTS[name] * (after[name] - before[name]):+.1f} points"
    return f"{100 * (after[name] / before[name] - 1):+.1f}%" if before[name] else ""
