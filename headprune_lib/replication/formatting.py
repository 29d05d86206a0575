"""How numbers are printed: with their interval, their sign and their unit."""

from __future__ import annotations

import re
from collections.abc import Sequence

NOT_MEASURED = "not measured"
"""Text in place of a number without a result."""


def estimate(value: float | None, interval: Sequence[float], form: str = ".2f") -> str:
    """A value and its interval, or that it was not measured.

    >>> estimate(0.123, [0.1, 0.2]), estimate(0.123, [0.1, 0.2], ".0%")
    ('0.12 [0.10, 0.20]', '12% [10%, 20%]')
    """
    if value is None:
        return NOT_MEASURED
    low, high = interval
    return f"{value:{form}} [{low:{form}}, {high:{form}}]"


def p_text(p: float) -> str:
    """A p-value to three decimals, as papers print it.

    >>> p_text(0.0474), p_text(2e-5)
    ('0.047', '< 0.001')
    """
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def with_minus(text: str) -> str:
    """Replace each hyphen of a number by a typographic minus sign."""
    return text.replace("-", "−")


def formatted(form: str, value: float) -> str:
    """A number with a minus sign, and zero without any.

    >>> formatted("{:+.1f}", -0.26), formatted("{:+.1f}", -0.01)
    ('−0.3', '0.0')
    """
    text = with_minus(form.format(value))
    return text if re.search("[1-9]", text) else text.lstrip("−+")


def signed(
    change: float | None,
    interval: Sequence[float] | None = None,
    form: str = ".2f",
    scale: float = 1,
) -> str:
    """A change times ``scale`` with its interval, or that it was not measured.

    >>> signed(-0.123, [-0.2, 0.01]), signed(0.0123, form=".3f")
    ('−0.12 [−0.20, +0.01]', '+0.012')
    """
    if change is None:
        return NOT_MEASURED
    value, *ends = (with_minus(f"{scale * end:+{form}}") for end in (change, *(interval or ())))
    return f"{value} [{', '.join(ends)}]" if ends else value


def points(delta: float, interval: Sequence[float] | None = None, form: str = ".2f") -> str:
    """A change of accuracy in percentage points, with its interval.

    >>> points(-0.0123, [-0.02, 0.001])
    '−1.23 [−2.00, +0.10]'
    """
    return signed(delta, interval, form, 100)
