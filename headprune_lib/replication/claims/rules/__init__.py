"""The second rules: of every claim the paper's own criterion, and ours with its power.

They were fixed on 22 November 2026: after the first results of this project were known, before
those that are marked *confirmatory*. A rule takes numbers with their intervals. Effects are cut
minus uncut, as fractions of 1 or in BLEU; sentences count layers and heads from 1.
"""

from headprune_lib.replication.claims.rules.domains import across
from headprune_lib.replication.claims.rules.many_heads import (
    C4_PAPER_LEFT,
    kinds,
    orders,
    together,
)
from headprune_lib.replication.claims.rules.single_heads import one_at_a_time, one_head_a_layer
from headprune_lib.replication.claims.rules.speed import faster, no_faster
from headprune_lib.replication.claims.rules.training import apart

__all__ = [
    "C4_PAPER_LEFT",
    "FIXED",
    "across",
    "apart",
    "faster",
    "kinds",
    "no_faster",
    "one_at_a_time",
    "one_head_a_layer",
    "orders",
    "together",
]

FIXED = "2026-11-22T21:40:00+00:00"
"""When the rules were fixed. What was measured before is exploratory."""
