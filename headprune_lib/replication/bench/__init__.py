"""How fast masking, scoring and removal are: ratios of medians in one run, with floors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from headprune_lib.messages import unknown
from headprune_lib.replication.bench import criteria, encoder, translation
from headprune_lib.replication.bench.compare import Row
from headprune_lib.replication.profiles import Profile


def _workers(profile: Profile, n_sentences: int, rounds: int) -> list[Row]:
    from headprune_lib.replication.bench import workers  # Dask is an extra

    return workers.rows(profile, n_sentences, rounds)


def _graphs(profile: Profile, n_sentences: int, rounds: int) -> list[Row]:
    from headprune_lib.replication.bench import graphs  # ONNX is an extra

    return graphs.rows(profile, n_sentences, rounds)


def _before(profile: Profile, n_sentences: int, rounds: int) -> list[Row]:
    from headprune_lib.replication.bench import before  # installs the old transformers

    return before.rows(profile, n_sentences, rounds)


_HALVES: dict[str, Callable[[Profile, int, int], list[Row]]] = {
    "encoder": encoder.rows,
    "criteria": criteria.rows,
    "translation": translation.rows,
    "sweeps": translation.sweeps,
    "workers": _workers,
    "onnx": _graphs,
    "before": _before,
}


def bench(half: str, profile: Profile, *, n_sentences: int = 256, rounds: int = 5) -> list[dict]:
    """Every comparison of a half, as dicts of a :class:`~.compare.Row`'s fields.

    ``"criteria"`` in place of a half compares what scores cost, ``"sweeps"`` the translator's losses
    under each cut, ``"workers"`` where units of work
    run, ``"onnx"`` graphs with and without half of the encoder's heads, ``"before"`` this library
    with transformers 4.46.3.

    Raises:
        ValueError: a half that is none of these.
    """
    if half not in _HALVES:
        raise ValueError(unknown("half", half, _HALVES))
    return [dataclasses.asdict(row) for row in _HALVES[half](profile, n_sentences, rounds)]
