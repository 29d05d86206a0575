"""What every statistic checks of its input, and the shape of its answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """Value, ends of its interval and two-sided p: floats, or arrays of one shape."""

    value: float | Array
    low: float | Array
    high: float | Array
    p: float | Array


def numbers(name: str, given: ArrayLike, axes: int = 0) -> Array:
    """``given`` as float64; ValueError if it is empty, holds NaN or has fewer than ``axes`` axes."""
    array = np.asarray(given, dtype=np.float64)
    if array.size == 0:
        raise ValueError(f"{name} is empty (shape {array.shape}); give at least one number")
    if array.ndim < axes:
        raise ValueError(f"{name} has shape {array.shape}; expected at least {axes} axes")
    if np.isnan(array).any():
        raise ValueError(
            f"{name} holds {int(np.isnan(array).sum())} NaN of {array.size} numbers; "
            "find out where they come from, or leave those entries out"
        )
    return array


def same(what: str, first: object, second: object) -> None:
    """Raises ValueError unless both are equal."""
    if first != second:
        raise ValueError(
            f"{what} differ: {first} and {second}; give paired measurements of the "
            "same examples in the same order"
        )
