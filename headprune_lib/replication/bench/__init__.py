"""How fast masking, scoring and removal are: ratios of medians in one run, with floors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from headprune_lib.messages import unknown
from headprune_lib.replication.bench import encoder, translation
from headprune_lib.replication.bench.compare import Row
from headprune_lib.replication.profiles import Profile

_HALVES: dict[str, Callable[[Profile, int, int], list[Row]]] = {
    "encoder": encoder.rows,
    "translation": translation.rows,
}


def bench(half: str, profile: Profile, *, n_sentences: int = 256, rounds: int = 5) -> list[dict]:
    """Every comparison of a half, as dicts of a :class:`~.compare.Row`'s fields.

    Raises:
        ValueError: a half that is neither ``"encoder"`` nor ``"translation"``.
    """
    if half not in _HALVES:
        raise ValueError(unknown("half", half, _HALVES))
    return [dataclasses.asdict(row) for row in _HALVES[half](profile, n_sentences, rounds)]
