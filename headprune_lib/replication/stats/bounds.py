"""Bounds and tolerances that statistics and verdicts share, each in this one place.

Effects are cut minus uncut: accuracy as a fraction, BLEU in points.
"""

from __future__ import annotations

from typing import Final

# Largest loss that still counts as none (C1, C2).
DELTA: Final = 0.01
DELTA_BLEU: Final = 0.5
# Significance level, the paper's: of Holm-adjusted p in C1, of raw p in C2 for translation.
ALPHA: Final = 0.01
# Losses at which the share of heads that can go is given, as shares of what is above chance ...
TOLERANCES: Final = (0.01, 0.02, 0.05)
# ... and the one that decides C3.
C3_TOLERANCE: Final = 0.02
# C4: share of one kind's heads that is removed.
C4_REMOVED: Final = 0.60
# C5: share of heads that is removed at each checkpoint.
C5_REMOVED: Final = 0.40
