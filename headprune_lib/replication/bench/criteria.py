"""What scores by each criterion cost, in forward passes over the same text."""

from __future__ import annotations

from headprune_lib.criteria import CRITERIA
from headprune_lib.replication.bench.compare import Row, compare
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import EncoderSubject
from headprune_lib.scoring import score_heads
from headprune_lib.utils import pass_seconds

SCORES_BY = "scores by "
"""Begins the name of a row; the criterion follows."""


def rows(profile: Profile, n: int, rounds: int) -> list[Row]:
    """Seconds of scores by every criterion over those of one forward pass.

    Scores are taken under the eager kernel, which gives weights of attention and has the faster
    backward pass on a CPU; the pass runs under the kernel that is fastest without a gradient. A
    greedy search and Shapley values take thousands of passes, so few texts do.
    """
    scored, run = (EncoderSubject.of(profile, kernel=kernel) for kernel in ("eager", "sdpa"))
    batches = scored.batches(scored.test.first(n)).batches

    def forward() -> None:
        pass_seconds(run.model, batches)

    def score(by: str) -> None:
        score_heads(scored.model, batches, by)

    return [
        compare(
            f"{SCORES_BY}{name}",
            lambda name=name: score(name),
            "one forward pass",
            forward,
            rounds,
            None,
            "",
        )
        for name in CRITERIA
        if name != "random"  # reads no text
    ]
