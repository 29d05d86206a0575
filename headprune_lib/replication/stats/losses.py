"""Losses as they are stored."""

from __future__ import annotations

import numpy as np

MILLINAT = 1000
"""Losses are stored in whole thousandths of a nat."""


def coarse(values: np.ndarray) -> np.ndarray:
    """To five binary digits, which a file holds in half the space.

    Each value is off by at most one part in 32, a mean over a thousand by one in ten thousand.
    """
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(32 * mantissa) / 32, exponent)


def millinats(nats: np.ndarray) -> np.ndarray:
    """Whole thousandths of a nat in 16 bits; what lies beyond is put at their end (32.767 nats)."""
    limit = np.iinfo(np.int16).max
    return np.rint(nats * MILLINAT).clip(-limit, limit).astype(np.int16)
