"""One page about a pruning, in one file: the map of heads, the curves, before and after."""

from __future__ import annotations

import math
import os
import platform
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

import headprune_lib
from headprune_lib.batching import Batch
from headprune_lib.budgets import Cut
from headprune_lib.cli.bounds import Budget
from headprune_lib.cli.quality import quality
from headprune_lib.cli.tables import TITLES, shown
from headprune_lib.heads import HeadTensors, cut_heads, find_heads
from headprune_lib.masking import masked_heads
from headprune_lib.orders import Step
from headprune_lib.running import on_device

_POINTS = {"accuracy": 100, "bleu": 1}  # what is told in points: how many of them 1 is
_PLACES = 8  # that quality is looked at between the uncut model and the pruned one
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 360, 230, 62, 14, 16, 42  # of a figure, in pixels


@dataclass(frozen=True)
class Chart:
    """A curve in a figure's own pixels, with the words that say the same.

    Attributes:
        points: ``(x, y, heads gone, value as it is shown, whether it was taken)``.
        ticks_x: ``(place, text)`` along the axis of heads gone; ``ticks_y`` of the values.
        limit: where the bound lies; None where there is none within the figure.
    """

    title: str
    label: str
    points: list[tuple[float, float, int, str, bool]]
    ticks_x: list[tuple[float, str]]
    ticks_y: list[tuple[float, str]]
    limit: float | None = None

    @property
    def line(self) -> str:
        """The points as a polyline has them."""
        return " ".join(f"{x:.1f},{y:.1f}" for x, y, *_ in self.points)

    @property
    def words(self) -> str:
        """The curve in a sentence, for who does not see it."""
        first, last = self.points[0], self.points[-1]
        taken = next((point for point in self.points if point[4]), last)
        return (
            f"{self.label}: {first[3]} with {first[2]} heads gone, {last[3]} with {last[2]} gone; "
            f"taken: {taken[2]} gone, {taken[3]}."
        )


def page(
    before: nn.Module,
    after: nn.Module,
    budget: Budget,
    cut: Cut,
    scores: HeadTensors,
    taken: Sequence[Step],
    tested: Sequence[Batch],
    measured: Mapping[str, Mapping[str, float]],
    names: Mapping[str, str],
) -> str:
    """The page as HTML, which needs no other file.

    Args:
        taken: the steps that were removed, in order; quality is measured along them.
        names: of the ``model``, of what scored ``by``, and of what it was ``measured_on``.
    """
    from jinja2 import Environment, PackageLoader

    walk = [
        (point.heads, budget.shown(point.value), point.steps == cut.steps) for point in cut.curve
    ]
    limit = None if budget.limit is None else budget.shown(budget.limit)
    charts = [chart("What was walked", budget.bound.title, walk, limit)] if walk else []
    charts += _quality_charts(before, taken, tested)
    figures = measured["before"], measured["after"]
    template = Environment(
        loader=PackageLoader("headprune_lib.cli", "."), autoescape=True, trim_blocks=True,
        lstrip_blocks=True,
    ).get_template("report.html.jinja")  # fmt: skip
    return template.render(
        names=names,
        bound=f"{budget.bound.option} {budget.bound.value:g}",
        gone=int(figures[0]["heads"] - figures[1]["heads"]),
        heads=int(figures[0]["heads"]),
        grids=grids(before, after, scores),
        charts=charts,
        size={"width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "right": _WIDTH - _RIGHT,
              "bottom": _HEIGHT - _BOTTOM},
        rows=[
            (TITLES[name], *(shown(name, one[name]) for one in figures), _change(name, *figures))
            for name in figures[0]
        ],
        command=shlex.join(["headprune", *sys.argv[1:]]),
        versions={
            "headprune": headprune_lib.__version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "Python": platform.python_version(),
            "machine": f"{platform.system()} {platform.machine()}, {torch.get_num_threads()} threads",
        },
        date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )  # fmt: skip


def written(path: Path, html: str) -> None:
    """Write a page whole or not at all."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        try:
            file.write(html)
            file.close()
            Path(file.name).chmod(0o666 & ~_umask())
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def grids(before: nn.Module, after: nn.Module, scores: HeadTensors) -> list[dict[str, Any]]:
    """Of each kind a row a layer and a cell a head: what became of it, its score, and how high.

    The height is from 0, the lowest score of the kind, to 1, the highest.
    """
    found: dict[str, dict[str, Any]] = {}
    for block, left in zip(find_heads(before), find_heads(after), strict=True):
        values = scores[block.kind]
        known = values[~values.isnan()]
        low, span = float(known.min()), float(known.max() - known.min()) or 1.0
        cells = []
        for head in range(values.shape[1]):
            score = float(values[block.layer, head])
            cells.append(
                {
                    "head": head + 1,
                    "state": "kept" if head in left.kept else "removed" if head in block.kept
                    else "gone" if head < block.n_heads else "none",
                    "score": f"{score:.3g}",
                    "high": 0 if math.isnan(score) else round((score - low) / span, 3),
                }
            )  # fmt: skip
        grid = found.setdefault(block.kind, {"kind": block.kind, "layers": []})
        grid["layers"].append({"number": block.layer + 1, "cells": cells})
    return list(found.values())


def _quality_charts(
    model: nn.Module, taken: Sequence[Step], tested: Sequence[Batch]
) -> list[Chart]:
    """Accuracy and loss on the text that the page reports, at some places on the way."""
    device = next(model.parameters()).device
    batches = [on_device(batch, device) for batch in tested]
    places = sorted({round(len(taken) * i / _PLACES) for i in range(_PLACES + 1)})
    found = []
    for place in places:
        heads = [head for step in taken[:place] for head in step]
        with masked_heads(model, cut_heads(model, heads)):
            found.append((len(heads), quality(model, batches)))
    last = len(found) - 1
    return [
        chart(
            f"{TITLES[name]} on the way".capitalize(), TITLES[name],
            [(heads, figures[name], i == last) for i, (heads, figures) in enumerate(found)],
        )
        for name in found[0][1]
    ]  # fmt: skip


def chart(
    title: str, label: str, walk: Sequence[tuple[int, float, bool]], limit: float | None = None
) -> Chart:
    """A figure of ``(heads gone, value, whether it was taken)``."""
    most = max(heads for heads, *_ in walk) or 1
    values = [value for _, value, _ in walk] + ([] if limit is None else [limit])
    low, high = min(values), max(values)
    if high == low:
        low, high = low - abs(low) * 0.1 - 1e-9, high + abs(high) * 0.1 + 1e-9

    def across(heads: float) -> float:
        return _LEFT + heads / most * (_WIDTH - _LEFT - _RIGHT)

    def down(value: float) -> float:
        return _HEIGHT - _BOTTOM - (value - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    marks = sorted({0, most // 2, most})
    levels = [low, (low + high) / 2, high]
    return Chart(
        title,
        label,
        [(across(heads), down(v), heads, _number(v), taken) for heads, v, taken in walk],
        [(across(heads), str(heads)) for heads in marks],
        [(down(value), _number(value)) for value in levels],
        None if limit is None else down(limit),
    )


def _number(value: float) -> str:
    """A value in few signs: 1.3M, 0.0412."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.4g}{unit}"
    return f"{value:.4g}"


def _change(name: str, before: Mapping[str, float], after: Mapping[str, float]) -> str:
    if name in _POINTS:
        return f"{_POINTS[name] * (after[name] - before[name]):+.1f} points"
    return f"{100 * (after[name] / before[name] - 1):+.1f}%" if before[name] else ""
