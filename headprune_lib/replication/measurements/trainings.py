"""Parts that are named after a training, ``"training 2"``, beside the first one's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headprune_lib.replication.measurements.measurement import Own
from headprune_lib.replication.order_names import seed_in
from headprune_lib.replication.store import OUTCOMES, Arrays, Outcomes


def seed_of(part: str) -> int | None:
    """The training that a part names; None of the first one's, which names none.

    Raises:
        ValueError: the name is no training's.
    """
    return None if part == OUTCOMES else seed_in(part)


def of_training(part: str) -> Own:
    """What such a part depends on besides: the training."""
    seed = seed_of(part)
    return Own(seeds=None if seed is None else (seed,))


def with_further(
    outcomes: Outcomes, summarise: Callable[[Arrays], dict[str, Any]]
) -> dict[str, Any]:
    """The first training's summary, and in ``further`` those of others by the names of their parts.

    Where a further training was asked for by itself, ``further`` is all there is.
    """
    found = {name: summarise(raw) for name, raw in outcomes.items()}
    first = found.pop(OUTCOMES, {})
    return {**first, "further": found} if found else first
