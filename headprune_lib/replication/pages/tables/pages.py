"""Tables and numbers as a page shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headprune_lib.replication.claims.verdict import Judged, defined

__all__ = [
    "NOT_MEASURED",
    "estimate",
    "number",
    "points",
    "shown_orders",
]


NOT_MEASURED = "not measured"
"""What stands in a number's place where there is no result."""

NOT_ABOVE_CHANCE = "not above chance"
"""What stands in place of what is kept of the score above chance, where there is none to keep."""


def number(value: float | None, form: str) -> str:
    """A number in a format, or that it was not measured.

    >>> number(0.256, ".0%"), number(None, ".0%")
    ('26%', 'not measured')
    """
    return NOT_MEASURED if value is None else f"{value:{form}}"


def points(delta: float, interval: Sequence[float] | None = None) -> str:
    """A change of accuracy in percentage points, with its interval.

    >>> points(-0.0123, [-0.02, 0.001])
    '−1.23 [−2.00, +0.10]'
    """
    return signed(100 * delta, interval and [100 * end for end in interval])


def estimate(value: float | None, interval: Sequence[float], form: str = ".2f") -> str:
    """A value and its interval, or that it was not measured.

    >>> estimate(0.123, [0.1, 0.2]), estimate(0.123, [0.1, 0.2], ".0%")
    ('0.12 [0.10, 0.20]', '12% [10%, 20%]')
    """
    if value is None:
        return NOT_MEASURED
    low, high = interval
    return f"{value:{form}} [{low:{form}}, {high:{form}}]"


def kept_text(found: Mapping[str, Any] | None) -> str:
    """What is kept of the score above chance, ``kept`` with its ``interval``.

    >>> kept_text({"kept": 0.955, "interval": [0.92, 0.99]}), kept_text(None)
    ('95.5% [92.0%, 99.0%]', 'not measured')
    >>> kept_text({"kept": None, "interval": [None, None]})
    'not above chance'
    """
    if found is None:
        return NOT_MEASURED
    if not defined(found["kept"], *found["interval"]):
        return NOT_ABOVE_CHANCE
    return estimate(found["kept"], found["interval"], ".1%")


def judged_text(judged: Judged, form: str) -> str:
    """The one number that a rule looks at, with its interval."""
    if judged.word == "not run":
        return NOT_MEASURED
    if not judged.estimates:
        return NOT_ABOVE_CHANCE
    (found,) = judged.estimates
    return estimate(found.value, found.interval, form)


def p_text(p: float) -> str:
    """A p-value to three decimals, as papers print it.

    >>> p_text(0.0474), p_text(2e-5)
    ('0.047', '< 0.001')
    """
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def signed(change: float, interval: Sequence[float] | None = None, form: str = ".2f") -> str:
    """A change in its own unit, with its interval.

    >>> signed(-0.123, [-0.2, 0.01]), signed(0.0123, form=".3f")
    ('−0.12 [−0.20, +0.01]', '+0.012')
    """
    value, *ends = (f"{number:+{form}}".replace("-", "−") for number in (change, *(interval or ())))
    return f"{value} [{', '.join(ends)}]" if ends else value


def shown_orders(values: Mapping[str, Any]) -> list[str]:
    """The orders of a pruning curve's result, the main fine-tuning apart only if there are others."""
    single = len(values["curves"]["importance"]["runs"]) == 1
    return [name for name in values["prunable"] if not (single and name == "importance main")]
