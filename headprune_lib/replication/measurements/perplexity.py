"""What losses of passages say: perplexity, and how much is kept of what a model knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.measurements.records import interval_record
from headprune_lib.replication.metrics import MILLINAT
from headprune_lib.replication.store import Arrays


@dataclass(frozen=True)
class Statistics:
    """Resamples of the bootstrap over passages, and of the runs of an order where it has several."""

    resamples: int = 5_000
    seed: int = 0


class Along(TypedDict):
    """Of an order, at each share removed, 0 first, with 95% intervals as (share, 2).

    ``mean`` and ``runs`` are losses in nats a token, ``perplexity`` is the exponential of the mean;
    ``kept`` is the share that is kept of what the uncut model gains over the frequencies of tokens.
    """

    mean: np.ndarray
    runs: np.ndarray
    perplexity: np.ndarray
    interval: np.ndarray
    kept: np.ndarray
    kept_interval: np.ndarray


def of_passages(loss: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Each passage's share of the two sums that a loss a token is the ratio of: (..., n, 2)."""
    return np.stack([loss, np.broadcast_to(tokens, loss.shape)], -1).astype(float)


def a_token(sums: np.ndarray) -> np.ndarray:
    """Loss a token from the two sums, (..., 2) -> (...)."""
    return sums[..., 0] / sums[..., 1]


def drawn_losses(
    losses: Mapping[str, np.ndarray], tokens: np.ndarray, statistics: Statistics
) -> dict[str, np.ndarray]:
    """Name -> loss a token on resampled passages, (resamples, shares), paired between names.

    Args:
        losses: name -> (runs, shares, n) in nats.
    """
    systems = {name: of_passages(loss, tokens) for name, loss in losses.items()}
    return stats.bootstrap_curves(systems, statistics.resamples, statistics.seed, a_token)


def stored_losses(raw: Arrays) -> np.ndarray:
    """(runs, 1 + shares, n) in nats from what is stored, the uncut model first in every run."""
    uncut = raw["loss_uncut"].astype(float)
    change = raw["loss_change"].astype(float)
    cut = uncut + change
    first = np.broadcast_to(uncut, (len(cut), 1, len(uncut)))
    return np.concatenate([first, cut], 1) / MILLINAT


def along(loss: np.ndarray, tokens: np.ndarray, drawn: np.ndarray, frequency: float) -> Along:
    """What a page says of one order.

    Args:
        loss: (runs, shares, n) in nats.
        drawn: (resamples, shares), the loss a token.
        frequency: loss a token by the frequencies of tokens alone.
    """
    runs = loss.sum(-1) / tokens.sum()
    mean = runs.mean(0)
    return {
        "mean": mean,
        "runs": runs,
        "perplexity": np.exp(mean),
        "interval": np.exp(interval_record(drawn)).T,
        "kept": kept(mean, frequency),
        "kept_interval": interval_record(kept(drawn, frequency)).T,
    }


def kept(loss: np.ndarray, frequency: float) -> np.ndarray:
    """The share that is kept of the uncut model's gain over the frequencies, (..., shares).

    NaN where the uncut model gains nothing.
    """
    gain = np.broadcast_to(frequency - loss[..., :1], loss.shape)
    return np.divide(frequency - loss, gain, out=np.full_like(loss, np.nan), where=gain > 0)
