"""Values of a pruning curve, read by what they mean: order, tolerance, share removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headprune_lib.replication.bounds import SHOWN_TOLERANCE
from headprune_lib.replication.measurements.records import tolerance_key
from headprune_lib.replication.store import Result


def prunable_at(
    values: Mapping[str, Any], order: str = "importance", tolerance: float = SHOWN_TOLERANCE
) -> dict[str, Any]:
    """The share of heads that goes in an order of removal, ``{"share", "interval"}``.

    Args:
        values: those of a pruning curve's result.
        order: such as ``"importance"`` or ``"random"``.
        tolerance: the loss that counts as none, as a share of what the model has above chance.

    Raises:
        KeyError: the order, or the tolerance, was not measured; the message names those that were.
    """
    prunable = values["prunable"]
    if order not in prunable:
        raise KeyError(f"order {order!r} was not measured; there are {', '.join(prunable)}")
    if (key := tolerance_key(tolerance)) not in prunable[order]:
        raise KeyError(f"no share at a loss of {key}; there are {', '.join(prunable[order])}")
    return prunable[order][key]


def step_at(shares: Sequence[float], removed: float) -> int:
    """The step of a pruning schedule that is nearest to a share removed.

    >>> step_at([0.0, 0.1, 0.2, 0.3], 0.2)
    2
    """
    return min(range(len(shares)), key=lambda step: abs(shares[step] - removed))


def raw_importance(curve: Result) -> np.ndarray:
    """I_h of the first training behind a pruning curve, not normalised, (layer, head)."""
    return curve.parts["importance"].raw["scores"]
