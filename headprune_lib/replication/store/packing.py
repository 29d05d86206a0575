"""The stored form of outcomes: heads as small integers, and translations under masks as changes.

Packed n-gram counts and draft losses of masked models are stored as the *change* from the unmasked
model's: few change, so the files stay small.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from headprune_lib.replication.lazy import masking
from headprune_lib.replication.metrics import MILLINAT, coarse, unpack
from headprune_lib.replication.store.files import Arrays

KINDS = ("enc-enc", "enc-dec", "dec-dec")
"""Kinds of attention in an encoder-decoder, as the paper names them: encoder self-attention,
encoder-decoder attention and decoder self-attention."""


def heads_array(heads: Iterable[masking.Head]) -> np.ndarray:
    """(heads, 3): kind (index in ``KINDS``), layer and head; for an encoder (heads, 2), no kind."""
    return np.array(
        [head[1:] if head[0] not in KINDS else (KINDS.index(head[0]), *head[1:]) for head in heads],
        np.int16,
    )


def heads_in(stored: np.ndarray) -> list[masking.Head]:
    """The heads in an array of :func:`heads_array`, (heads, 2 or 3)."""
    return [
        ("self", *head) if len(head) == 2 else (KINDS[head[0]], *head[1:])
        for head in stored.tolist()
    ]


def rows_of(heads: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """The row of each head in outcomes whose heads are ``stored``; both as by :func:`heads_array`.

    Raises KeyError for a head that the outcomes do not have.
    """
    rows = {tuple(head): row for row, head in enumerate(stored.tolist())}
    return np.array([rows[tuple(head)] for head in heads.tolist()], int)


# --- pairs under masks ----------------------------------------------------------------------------

BESIDE = "sacrebleu_"
"""Prefix of the outcomes for sacrebleu's own BLEU, where another BLEU is the main one."""


def joined(units: list[Arrays], back: np.ndarray) -> Arrays:
    """The outcomes of all groups of pairs, in the pairs' own order, those of masks as changes.

    Args:
        back: the position of each pair in the concatenated groups.

    Raises:
        ValueError: a draft's loss is not finite.
    """
    columns: Arrays = {}
    for way in ("", BESIDE):
        if f"{way}counts" not in units[0]:
            continue
        counts = np.concatenate([unit[f"{way}counts"] for unit in units], axis=1)[:, back]
        lengths = np.concatenate([unit[f"{way}reference_lengths"] for unit in units])[back]
        columns |= {
            f"{way}counts_uncut": counts[0],
            f"{way}counts_change": counts[1:] - counts[0],
            f"{way}reference_lengths": lengths,
        }
    loss = np.concatenate([unit["draft_loss"] for unit in units], -1)[:, back]
    if not np.isfinite(loss).all():
        raise ValueError(
            "the log-losses of some translations are not finite. Check the translator's weights"
        )
    loss = np.rint(MILLINAT * loss)
    return {
        **columns,
        "draft_loss_uncut": loss[0].astype(np.int32),
        "draft_loss_change": (loss[1:] - loss[0]).astype(np.int32),
    }


def all_counts(raw: Arrays, prefix: str = "") -> tuple[np.ndarray, np.ndarray]:
    """Counts of the unmasked model (n, 10) and of the masked ones (M, n, 10) from raw outcomes."""
    lengths, uncut = raw[f"{prefix}reference_lengths"], raw[f"{prefix}counts_uncut"]
    return unpack(uncut, lengths), unpack(uncut + raw[f"{prefix}counts_change"], lengths)


def first_verses(raw: Arrays, n: int | None) -> Arrays:
    """The outcomes of :meth:`TranslationSubject.sweep` on the first ``n`` verses."""
    return {
        name: values
        if name == "heads"
        else values[:, :n]
        if name.endswith("_change")
        else values[:n]
        for name, values in raw.items()
    }


def mean_losses(raw: Arrays) -> Arrays:
    """``raw`` with ``draft_log_loss`` (1 + M,) in place of the draft loss of every verse.

    It is the mean in nats, the unmasked model's first, in a hundredth of the space: enough to
    choose between heads (Table 5) and for the record, where no statistic needs single losses.
    Outcomes with the mean alone, or without drafts, are returned as they are.
    """
    if "draft_loss_uncut" not in raw:
        return raw
    uncut, change = raw["draft_loss_uncut"], raw["draft_loss_change"]
    kept = {name: values for name, values in raw.items() if not name.startswith("draft_loss")}
    means = np.concatenate([[uncut.mean()], uncut.mean() + change.mean(-1)]) / MILLINAT
    return {**kept, "draft_log_loss": means}


def coarse_losses(raw: Arrays) -> Arrays:
    """``raw`` with the *changes* of draft losses rounded to five binary digits: half the space."""
    change = np.rint(coarse(raw["draft_loss_change"])).astype(np.int32)
    return {**raw, "draft_loss_change": change}
