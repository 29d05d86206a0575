"""The picture of removed heads where no script runs and on paper: one share, the same message."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from headprune_lib.replication.pages.site.removal import first_step


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
    """Two pictures that need no script: the heads that go at 40%, and the curves."""
    step, order = first_step(entry), entry["orders"][0]
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
        f"Map of the heads, a row a layer, a column a head: {len(gone)} of {number} are dark, "
        "which are removed."
    )
    start = f'<svg role="img" aria-label="{label}" viewBox="0 0 340 {y + 4}" class="map">'
    return f"{start}{''.join(cells)}</svg>"


_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 340, 240, 34, 22, 36


def _chart_svg(entry: Mapping[str, Any], order: Mapping[str, Any], step: int) -> str:
    lines = [order, *(one for one in entry["orders"] if one["name"] == "random")]
    numbers = [value for one in lines for value in one["mean"]] + [entry["chance"]]
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
        f'<text x="{mark}" y="14" text-anchor="middle">the paper: {entry["paper"]["share"]:.0%}</text>'
    )
    for one in reversed(lines):
        way = " ".join(
            f"{x(share)},{y(value)}"
            for share, value in zip(entry["shares"], one["mean"], strict=True)
        )
        name = "random" if one["name"] == "random" and one is not order else "order"
        parts.append(f'<polyline class="{name}" points="{way}"/>')
    at = entry["shares"][step]
    parts.append(f'<circle class="order" cx="{x(at)}" cy="{y(order["mean"][step])}" r="5"/>')
    parts.append(
        f'<text x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT - 4}" text-anchor="middle">heads removed</text>'
    )
    label = html.escape(
        f"{entry['metric']} against the share of heads removed: {told(entry, order, step)}"
    )
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {_WIDTH} {_HEIGHT}" class="chart">'
        f"{''.join(parts)}</svg>"
    )
