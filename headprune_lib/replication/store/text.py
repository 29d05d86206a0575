"""Results as text: plain values, and JSON whose diff can be read."""

from __future__ import annotations

import json
import math
from typing import Any


def plain(value: Any, where: str = "value") -> Any:
    """``value`` as JSON holds it: plain types, 6 significant digits, None for NaN and infinities.

    >>> plain({"p": 0.123456789, "gain": float("nan"), "at": (1, 2)})
    {'p': 0.123457, 'gain': None, 'at': [1, 2]}
    """
    if hasattr(value, "tolist"):  # numpy and torch, arrays and scalars
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        # Adding 0.0 turns -0.0 into 0.0: a sign that flips between machines is not a difference.
        return float(f"{value:.6g}") + 0.0 if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, dict):
        return {str(key): plain(item, f"{where}.{key}") for key, item in value.items()}
    raise TypeError(
        f"{where} is a {type(value).__name__}; a result holds numbers, text, None, lists and dicts"
    )


def layout(node: Any, depth: int = 0, in_list: bool = False) -> str:
    """JSON with sorted keys, and one record or list of numbers a line."""

    def scalars(items):
        return not any(isinstance(item, list | dict) for item in items)

    short = (
        scalars(node)
        if isinstance(node, list)
        else in_list
        and isinstance(node, dict)
        and all(
            scalars(item) if isinstance(item, list) else scalars([item]) for item in node.values()
        )
    )
    if short or not node or not isinstance(node, list | dict):
        return json.dumps(node, sort_keys=True, ensure_ascii=False, allow_nan=False)
    if isinstance(node, list):
        lines, ends = [layout(item, depth + 1, True) for item in node], "[]"
    else:
        lines, ends = (
            [
                f"{json.dumps(key, ensure_ascii=False)}: {layout(node[key], depth + 1)}"
                for key in sorted(node)
            ],
            "{}",
        )
    indent = "\n" + " " * (depth + 1)
    return ends[0] + indent + ("," + indent).join(lines) + "\n" + " " * depth + ends[1]
