"""Bounds and tolerances that statistics and verdicts share.

Effects are cut minus uncut: accuracy as a fraction, BLEU in points. The bounds are those of the
second rules, unchanged in the third; the page of the rules has the first ones.
"""

from __future__ import annotations

from typing import Final

# Largest drop that still counts as none (C1, C2).
DELTA: Final = 0.01
DELTA_BLEU: Final = 0.5
# Significance level, the paper's.
ALPHA: Final = 0.01
# C1: share of the heads that must be removable, the least lower end of its interval ...
C1_REMOVABLE: Final = 0.80
C1_REMOVABLE_LOW: Final = 0.70
# ... and the share that may be needed.
C1_NEEDED: Final = 0.20
# C1: the share of heads that changes the paper's score significantly (Table 1: 8 of 96).
PAPER_CHANGING: Final = 8 / 96
# C3: share of the score above chance to be kept at the paper's own share of removed heads.
C3_KEPT: Final = 0.95
# Drops at which the removable share of heads is given, as shares of the score above chance ...
TOLERANCES: Final = (0.01, 0.02, 0.05)
# ... and the one that sentences and figures show.
SHOWN_TOLERANCE: Final = 0.02
# C4: curves are compared up to this share of one kind's heads; differences are shown at these.
C4_UP_TO: Final = 0.90
C4_SHOWN: Final = (0.2, 0.4, 0.6, 0.8)
# C5: share of heads that is removed at each checkpoint.
C5_REMOVED: Final = 0.40
# C5: checkpoints of less BLEU are shown but do not count, as the share that they keep is noise.
LEAST_BLEU: Final = 5.0
# C8: orders are compared up to this share of the heads.
C8_UP_TO: Final = 0.50
# C7: least reliability of the effects in either domain.
C7_RELIABILITY: Final = 0.50
# Which first: orders, ours and others', are compared up to this share of the heads.
ORDERS_UP_TO: Final = 0.50
