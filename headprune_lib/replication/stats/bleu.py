"""Corpus BLEU from each sentence's n-gram counts, so that resampling is a matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sacrebleu.metrics import BLEU

ORDERS = 4
# Columns of a sentence's counts: matches and totals of each order, lengths.
COLUMNS = (
    "matches 1",
    "matches 2",
    "matches 3",
    "matches 4",
    "totals 1",
    "totals 2",
    "totals 3",
    "totals 4",
    "hypothesis length",
    "reference length",
)


@lru_cache(maxsize=2)
def _metric(tokenize: str) -> BLEU:
    # counts do not depend on the effective order; it silences a warning, as force does another
    return BLEU(effective_order=True, tokenize=tokenize, force=True)


def signature() -> str:
    """What sacrebleu calls this way of computing BLEU."""
    metric = BLEU()
    metric.corpus_score(["a"], [["a"]])
    return str(metric.get_signature())


@lru_cache(maxsize=1 << 17)
def _counts(hypothesis: str, reference: str, tokenize: str) -> tuple[int, ...]:
    score = _metric(tokenize).sentence_score(hypothesis, [reference])
    return (*score.counts, *score.totals, score.sys_len, score.ref_len)


def sentence_counts(
    hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a"
) -> NDArray[np.int16]:
    """(sentences, 10) counts, see ``COLUMNS``, as sacrebleu takes them.

    Args:
        tokenize: sacrebleu's name of a tokenizer; ``"none"`` for what is cut into tokens already.
    """
    if len(hypotheses) != len(references):
        raise ValueError(
            f"{len(hypotheses)} hypotheses but {len(references)} references; give one "
            "of each a sentence"
        )
    return np.array(
        [_counts(*pair, tokenize) for pair in zip(hypotheses, references, strict=True)], np.int16
    )


def pack(counts: NDArray) -> NDArray[np.int16]:
    """(..., 10) counts to the five that differ between translations: matches and own length."""
    return np.concatenate([counts[..., :ORDERS], counts[..., [-2]]], axis=-1).astype(np.int16)


def unpack(packed: NDArray, reference_lengths: NDArray) -> NDArray[np.int16]:
    """The inverse of :func:`pack`: (..., n, 5) and the (n,) lengths of references to (..., n, 10)."""
    length = packed[..., [-1]]
    totals = np.maximum(length - np.arange(ORDERS), 0)
    references = np.broadcast_to(reference_lengths[:, None], length.shape)
    return np.concatenate([packed[..., :ORDERS], totals, length, references], axis=-1).astype(
        np.int16
    )


def corpus_bleu(sums: ArrayLike) -> NDArray[np.float64]:
    """BLEU, 0 to 100, of counts summed over sentences: (..., 10) to (...).

    Equal to sacrebleu's ``corpus_bleu`` with its defaults: exponential smoothing where an order
    has no match, 0 where an order has no n-gram at all or nothing matches.
    """
    sums = np.asarray(sums, dtype=np.float64)
    matches, totals = sums[..., :ORDERS], sums[..., ORDERS : 2 * ORDERS]
    missing = (matches == 0) & (totals > 0)
    smoothing = 2.0 ** -np.cumsum(missing, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(missing, smoothing / totals, matches / totals)
        log_precision = np.log(precision).mean(axis=-1)
        brevity = np.minimum(0.0, 1 - sums[..., -1] / sums[..., -2])
        score = 100 * np.exp(brevity + log_precision)
    nothing = (matches[..., 0] == 0) | (totals == 0).any(axis=-1)
    return np.where(nothing, 0.0, score)
