"""Heads as results hold them: small integers, and back."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from headprune_lib.replication.lazy import masking

KINDS = ("enc-enc", "enc-dec", "dec-dec")
"""Of attention in an encoder-decoder, as the paper names them: the encoder's own, the decoder's to
the encoder, and the decoder's own."""


def heads_array(heads: Iterable[masking.Head]) -> np.ndarray:
    """(heads, 3): kind, as its place in ``KINDS``, layer and head; of an encoder layer and head."""
    return np.array(
        [head[1:] if head[0] not in KINDS else (KINDS.index(head[0]), *head[1:]) for head in heads],
        np.int16,
    )


def heads_in(stored: np.ndarray) -> list[masking.Head]:
    """What :func:`heads_array` was given, from (heads, 2 or 3)."""
    return [
        ("self", *head) if len(head) == 2 else (KINDS[head[0]], *head[1:])
        for head in stored.tolist()
    ]


def rows_of(heads: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """The row of each head in outcomes whose heads are ``stored``; both as :func:`heads_array`.

    Raises KeyError for a head that the outcomes do not have.
    """
    rows = {tuple(head): row for row, head in enumerate(stored.tolist())}
    return np.array([rows[tuple(head)] for head in heads.tolist()], int)
