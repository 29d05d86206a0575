"""Losses as they are stored."""

from __future__ import annotations

import numpy as np

MILLINAT = 1000
"""Losses are stored in whole thousandths of a nat."""


def millinats(nats: np.ndarray) -> np.ndarray:
    """Whole thousandths of a nat in 16 bits; what lies beyond is put at their end (32.767 nats)."""
    limit = np.iinfo(np.int16).max
    return np.rint(nats * MILLINAT).clip(-limit, limit).astype(np.int16)
