"""Stored curves of removal: as data for the picture that can be moved, and as the same picture still."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from headprune_lib.discovery import KINDS
from headprune_lib.masking import HeadTensors
from headprune_lib.replication import measurements, store
from headprune_lib.replication.claims.rules import share_judged, task_judged
from headprune_lib.replication.measurements import half_of
from headprune_lib.replication.measurements.effects import one_by_one_scores
from headprune_lib.replication.measurements.removal import n_cut
from headprune_lib.replication.order_names import IMPORTANCE, parse_part
from headprune_lib.replication.pages.frames import step_at
from headprune_lib.replication.pages.tables.markup import shown_orders
from headprune_lib.replication.published import published_task
from headprune_lib.replication.store import Key, Result, plain
from headprune_lib.replication.store.heads import heads_array
from headprune_lib.replication.titles import order_title, spelled
from headprune_lib.selection import rank_heads

MEASURED = ("pruning_curve", "which_first")
MAIN_TASK = "mnli"
SHOWN_SHARE = 0.4
"""Share removed that the picture starts with."""

# What a metric is called, what a stored score is multiplied by, and its unit.
_METRICS = {
    "accuracy": ("accuracy", 100, "%"),
    "BLEU": ("BLEU", 1, ""),
    "matthews": ("Matthews correlation × 100", 100, ""),
    "f1": ("F1 × 100", 100, ""),
}


def removal_data(results: Iterable[Result] | None = None) -> list[dict[str, Any]]:
    """One entry a stored set of curves: what the picture needs of it, the larger models first.

    ``orders`` hold ``mean`` and ``interval`` at each of ``shares``, and ``heads``: numbers of heads
    in the order in which they go, counted over the grids ``kinds`` (name, layers, heads) one after
    another; None where a stored curve does not say which heads they were.

    Args:
        results: pruning curves and orders compared; all that are stored if not given.
    """
    if results is None:
        results = measurements.found(*MEASURED)
    return [plain(_entry(result)) for result in results]


def first_shown(data: Sequence[Mapping[str, Any]]) -> int:
    """Where the picture starts: the paper's main task, by the model with most heads that has its curve."""
    curves = [i for i, entry in enumerate(data) if entry["measured"] == "pruning_curve"]
    main = [i for i in curves if data[i]["task"] == spelled(MAIN_TASK)]
    return max(main or curves or range(len(data)), key=lambda i: (data[i]["removed"][-1], -i))


def _entry(result: Result) -> dict[str, Any]:
    shares = [float(share) for share in result.values["shares"]]
    kinds = _grids(result)
    n = sum(layers * heads for _, layers, heads in kinds)
    word, scale, unit = _METRICS[result.metric]
    compared = result.measurement == "which_first"
    return {
        "id": f"{result.measurement}/{result.task}.{result.model}",
        "measured": result.measurement,
        "model": f"{spelled(result.model)} ({n} heads)",
        "task": f"{spelled(result.task)}{' (all orders compared)' if compared else ''}",
        "metric": word,
        "unit": unit,
        "examples": result.n_examples,
        "chance": scale * result.values["chance"],
        "kinds": kinds,
        "shares": shares,
        "removed": [n_cut(n, share) for share in shares],
        "paper": _paper(result),
        "orders": list((_compared if compared else _curves)(result, scale, kinds)),
    }


def _paper(result: Result) -> dict[str, Any]:
    half = half_of(result.key)
    judged = task_judged(result.task, half)
    name = {"wmt": "WMT14", "iwslt": "IWSLT14"}.get(judged, spelled(judged))
    if judged != published_task(result.task):
        name += (
            ", whose sentences come from reviews" if result.task == "reviews" else ", the nearest"
        )
    return {"share": share_judged(result.task, half), "task": name}


def _grids(result: Result) -> list[tuple[str, int, int]]:
    """Kind, layers and heads of each grid, in the order in which heads are numbered."""
    order = result.parts["importance"].raw["order"][0]
    if order.shape[1] == 2:
        layers, heads = order.max(0) + 1
        return [("self", int(layers), int(heads))]
    grids = []
    for number in sorted({*order[:, 0].tolist()}):
        layers, heads = order[order[:, 0] == number][:, 1:].max(0) + 1
        grids.append((KINDS[number], int(layers), int(heads)))
    return grids


def _curves(
    result: Result, scale: float, kinds: list[tuple[str, int, int]]
) -> Iterator[dict[str, Any]]:
    """The orders of a pruning curve."""
    for name in shown_orders(result.values):
        curve = result.values["curves"][name]
        part = "importance" if name == "importance main" else name
        ends = [[round(scale * end, 3) for end in pair] for pair in curve["interval"]]
        yield {
            "name": name,
            "title": order_title(name),
            "mean": [round(scale * score, 3) for score in curve["mean"]],
            "interval": ends,
            "trainings": len(curve["runs"]),
            "heads": _numbers(heads_that_go(result, part), kinds),
        }


def _compared(
    result: Result, scale: float, kinds: list[tuple[str, int, int]]
) -> Iterator[dict[str, Any]]:
    """The orders that are compared, but for controls, which are followed to half of the heads."""
    for name, order in result.values["orders"].items():
        if len(order["score"]) < len(result.values["shares"]):
            continue
        part = _part_shown(result, name)
        draws = result.parts[part].raw["order"] if name == "random" else order["trainings"]
        yield {
            "name": name,
            "title": order_title(name),
            "mean": [round(scale * score, 3) for score in order["score"]],
            "interval": None,
            "trainings": len(draws),
            "heads": _numbers(heads_that_go(result, part), kinds),
        }


def _part_shown(result: Result, order: str) -> str:
    """The part of an order on the first training that it is shown on."""
    seed = result.values["orders"][order]["trainings"][0]
    return next(
        name
        for name, part in result.parts.items()
        if parse_part(name).curve == order and part.runs[0]["seed"] == seed
    )


def _importance(result: Result) -> HeadTensors:
    """I_h of the first training, not normalised, as a curve's result holds it; or nothing."""
    raw = result.parts[IMPORTANCE].raw if IMPORTANCE in result.parts else {}
    scores = {
        name.partition(" ")[2] or "self": raw[name] for name in raw if name.startswith("scores")
    }
    return {kind: torch.from_numpy(scores[kind]) for kind in (*KINDS, "self") if kind in scores}


def heads_that_go(result: Result, part: str) -> np.ndarray | None:
    """The heads (heads, 2 or 3) in the order in which they go: as stored, or as it follows.

    Of several runs, those of the first. None where stored numbers do not say.
    """
    stored = result.parts[part].raw.get("order", ())
    if len(stored):
        return stored[0]
    if part == "importance unnormalised" and (scores := _importance(result)):
        return heads_array(rank_heads(scores))
    if part == "oracle" and half_of(result.key) == "encoder":
        single = store.stored(Key("one_head", result.task, result.model))
        if single is not None:
            return heads_array(rank_heads(one_by_one_scores(single.raw)))
    return None


def _numbers(order: np.ndarray | None, kinds: list[tuple[str, int, int]]) -> list[int] | None:
    if order is None:
        return None
    start, starts = 0, {}
    for kind, layers, heads in kinds:
        starts[kind] = (start, heads)
        start += layers * heads
    numbers = []
    for head in order.tolist():
        kind = "self" if len(head) == 2 else KINDS[head[0]]
        offset, width = starts[kind]
        numbers.append(offset + head[-2] * width + head[-1])
    return numbers


def told(entry: Mapping[str, Any], order: Mapping[str, Any], step: int) -> str:
    """What the picture says at a step, in a sentence; ``explorer.js`` says the same."""
    random = next((one for one in entry["orders"] if one["name"] == "random"), None)
    share, removed = entry["shares"][step], entry["removed"][step]
    total = entry["removed"][-1]
    words = (
        f"{share:.0%} of the heads removed ({removed} of {total}): {entry['metric']} "
        f"{_score(entry, order, step)} in the order “{order['title']}”"
    )
    if order["interval"]:
        low, high = order["interval"][step]
        words += f", 95% interval {low:.1f} to {high:.1f}"
    if random and random is not order:
        words += f"; {_score(entry, random, step)} in random order"
    return f"{words}; {_score(entry, order, 0)} with all heads."


def _score(entry: Mapping[str, Any], order: Mapping[str, Any], step: int) -> str:
    return f"{order['mean'][step]:.1f}{entry['unit']}"


def still_svg(entry: Mapping[str, Any]) -> str:
    """Two pictures that need no script: the heads removed at 40%, and the curves."""
    step, order = step_at(entry["shares"], SHOWN_SHARE), entry["orders"][0]
    return (
        f'<div class="pictures">{_map_svg(entry, order, step)}{_chart_svg(entry, order, step)}</div>'
        f"<p>{html.escape(told(entry, order, step))}</p>"
    )


def _map_svg(entry: Mapping[str, Any], order: Mapping[str, Any], step: int) -> str:
    gone, number, y, cells = {*(order["heads"] or [])[: entry["removed"][step]]}, 0, 0, []
    for kind, layers, heads in entry["kinds"]:
        size = min(24, 330 // (heads + 1))
        if kind != "self":
            y += 20
            cells.append(f'<text x="0" y="{y - 6}">{kind}</text>')
        for layer in range(layers):
            for head in range(heads):
                name = "gone" if number in gone else "kept"
                x, down = size * head, y + size * layer
                cells.append(
                    f'<rect class="{name}" x="{x}" y="{down}" width="{size - 2}" height="{size - 2}"/>'
                )
                number += 1
        y += size * layers
    label = (
        f"Map of the heads, one layer per line: {len(gone)} of {number} are removed and drawn dark."
    )
    start = f'<svg role="img" aria-label="{label}" viewBox="0 0 340 {y + 4}" class="map">'
    return f"{start}{''.join(cells)}</svg>"


_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 340, 260, 34, 42, 36


def _chart_svg(entry: Mapping[str, Any], order: Mapping[str, Any], step: int) -> str:
    lines = [order, *(one for one in entry["orders"] if one["name"] == "random")]
    ends = order["interval"] or []
    numbers = [value for one in lines for value in one["mean"]] + [entry["chance"]]
    numbers += [end for pair in ends for end in pair]
    low, high = min(numbers), max(numbers)

    def x(share: float) -> float:
        return round(_LEFT + share * (_WIDTH - _LEFT - 20), 1)

    def y(value: float) -> float:
        height = _HEIGHT - _TOP - _BOTTOM
        return round(_TOP + height * (high - value) / ((high - low) or 1), 1)

    parts = [
        f'<text x="{_LEFT - 4}" y="{y(value) + 4}" text-anchor="end">{value:.0f}</text>'
        for value in (low, high)
    ]
    parts += [
        f'<text x="{x(share)}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{share:.0%}</text>'
        for share in (0, 0.5, 1)
    ]
    mark = x(entry["paper"]["share"])
    parts.append(
        f'<line class="paper" x1="{mark}" x2="{mark}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>'
    )
    parts.append(
        f'<text x="{mark}" y="34" text-anchor="middle">the paper: {entry["paper"]["share"]:.0%}</text>'
    )

    def points(values: Iterable[float], shares: Sequence[float] = entry["shares"]) -> str:
        return " ".join(
            f"{x(share)},{y(value)}" for share, value in zip(shares, values, strict=True)
        )

    if ends:
        around = [low for low, _ in ends] + [high for _, high in reversed(ends)]
        both_ways = [*entry["shares"], *reversed(entry["shares"])]
        parts.append(f'<polygon class="band" points="{points(around, both_ways)}"/>')
    for one in reversed(lines):
        name = "random" if one["name"] == "random" and one is not order else "order"
        parts.append(f'<polyline class="{name}" points="{points(one["mean"])}"/>')
    at = entry["shares"][step]
    parts.append(f'<circle class="order" cx="{x(at)}" cy="{y(order["mean"][step])}" r="5"/>')
    parts.append(
        f'<text x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT - 4}" text-anchor="middle">'
        "share of the heads removed</text>"
    )
    unit = f", {entry['unit']}" if entry["unit"] else ""
    parts.append(f'<text x="0" y="12">{entry["metric"]}{unit}</text>')
    label = html.escape(
        f"{entry['metric']} against the share of heads removed: {told(entry, order, step)}"
    )
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {_WIDTH} {_HEIGHT}" class="chart">'
        f"{''.join(parts)}</svg>"
    )
