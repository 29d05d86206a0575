"""Resampling of examples: statistics of summed counts, and whole curves, under the same draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headprune_lib.replication.stats.checks import Array, Estimate, numbers, same


def bootstrap_indices(n: int, resamples: int, seed: int | np.random.Generator) -> NDArray[np.int64]:
    """Indices (resamples, n): ``resamples`` draws of ``n`` of ``n`` examples with replacement."""
    if n < 1 or resamples < 1:
        raise ValueError(f"n is {n}, resamples is {resamples}; expected at least 1 of each")
    return np.random.default_rng(seed).integers(0, n, size=(resamples, n))


def count_chunks(
    n: int, resamples: int, seed: int | np.random.Generator, dtype: type = np.float32
) -> Iterator[tuple[slice, NDArray]]:
    """How often each example is drawn, (chunk, n), for matrix products of bounded memory."""
    rng, size = np.random.default_rng(seed), max(1, 2**18 // n)
    for start in range(0, max(resamples, 1), size):
        rows = min(size, resamples - start)
        drawn = bootstrap_indices(n, rows, rng) + n * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
        yield slice(start, start + rows), counts.astype(dtype)


def bootstrap_scores(
    statistic: Callable[[Array], Array], systems: ArrayLike, resamples: int, seed: int
) -> Array:
    """Scores of every system on resampled test sets, (resamples, systems); all see the same draws.

    ``systems`` (systems, examples, k) holds each example's share of the sums that ``statistic``
    maps from (..., k) to (...): the cells of :func:`confusion` for :func:`matthews` and
    :func:`f1`, n-gram counts for BLEU.
    """
    systems = numbers("systems", systems, axes=3)
    m, n, k = systems.shape
    # float32 adds whole numbers exactly up to 2^24, at twice the speed.
    whole = bool((systems % 1 == 0).all()) and n * np.abs(systems).max() < 2**24
    dtype = np.float32 if whole else np.float64
    per_example = systems.transpose(1, 0, 2).reshape(n, m * k).astype(dtype)
    scores = np.empty((resamples, m))
    for rows, counts in count_chunks(n, resamples, seed, dtype):
        sums = (counts @ per_example).astype(np.float64)
        scores[rows] = statistic(sums.reshape(-1, m, k))
    return scores


def paired_bootstrap(
    statistic: Callable[[Array], Array],
    uncut: ArrayLike,
    cuts: ArrayLike,
    resamples: int,
    seed: int,
    confidence: float = 0.95,
) -> Estimate:
    """Change of a statistic of summed counts, its percentile interval and p, each (cuts,).

    ``uncut`` (examples, k) and ``cuts`` (cuts, examples, k) as in :func:`bootstrap_scores`.
    p inverts the percentile interval: twice the smaller tail at 0, one resample added to it.
    """
    uncut, cuts = numbers("uncut", uncut, axes=2), numbers("cuts", cuts, axes=3)
    same("(examples, counts) of uncut and cuts", uncut.shape, cuts.shape[1:])
    models = np.concatenate([uncut[None], cuts])  # (1 + cuts, examples, k)
    drawn = bootstrap_scores(statistic, models, resamples, seed)
    change = drawn[:, 1:] - drawn[:, :1]
    score = statistic(models.sum(axis=1))
    low, high = np.quantile(change, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    tail = 1 + np.minimum((change <= 0).sum(axis=0), (change >= 0).sum(axis=0))
    return Estimate(score[1:] - score[0], low, high, np.minimum(1.0, 2 * tail / (resamples + 1)))


def share_of_wins(
    statistic: Callable[[Array], Array],
    uncut: ArrayLike,
    cuts: ArrayLike,
    resamples: int,
    seed: int,
) -> Array:
    """p of each cut as compare-mt gave it until July 2019 (its commit 1febe28), (cuts,).

    Half of the examples are drawn without replacement, again and again; p is one minus the share
    of the draws that the better system wins. It is one-sided, and a draw that is level is no win.

    Args:
        statistic, uncut, cuts: as in :func:`paired_bootstrap`.
    """
    uncut, cuts = numbers("uncut", uncut, axes=2), numbers("cuts", cuts, axes=3)
    same("(examples, counts) of uncut and cuts", uncut.shape, cuts.shape[1:])
    rng, (examples, _) = np.random.default_rng(seed), uncut.shape
    systems = np.concatenate([uncut[None], cuts]).transpose(1, 0, 2)  # (examples, 1 + cuts, k)
    half = np.tile(np.arange(examples) < examples // 2, (resamples, 1))
    sums = rng.permuted(half, axis=1).astype(np.float64) @ systems.reshape(examples, -1)
    scores = statistic(sums.reshape(resamples, *systems.shape[1:]))
    change = scores[:, 1:] - scores[:, :1]
    return 1 - np.maximum((change > 0).mean(0), (change < 0).mean(0))


def bootstrap_curves(
    correct: dict[str, ArrayLike],
    resamples: int,
    seed: int,
    statistic: Callable[[Array], Array] | None = None,
    together: Mapping[str, str] | None = None,
) -> dict[str, Array]:
    """Resampled mean curves, name -> (resamples, shares), from name -> (runs, shares, examples).

    With a ``statistic`` of summed counts as in :func:`bootstrap_scores`, the curves are
    (runs, shares, examples, k); without, a score is the mean over the examples.

    Row i of every curve uses the same draw of examples, for all its shares and runs, so that the
    difference of two curves is paired. Where a curve has several runs (seeds), its runs are drawn
    again too, within the curve, and its draws do not depend on which other curves are given.
    Curves of the same runs can have the same draws of them: those to which ``together`` gives the
    same name.
    """
    curves = {
        name: numbers(name, curve, axes=3 + (statistic is not None))
        for name, curve in correct.items()
    }
    if not curves:
        raise ValueError("correct has no curve; expected name -> array (runs, shares, examples)")
    n = next(iter(curves.values())).shape[2]
    for name, curve in curves.items():
        same(f"numbers of examples ({name} and the first curve)", curve.shape[2], n)
    flat = {
        name: np.ascontiguousarray(np.moveaxis(curve, 2, 0).reshape(n, -1), dtype=np.float32)
        for name, curve in curves.items()
    }
    keys = {name: (together or {}).get(name, name) for name in curves}
    run_rngs = {name: np.random.default_rng([seed, 1, *key.encode()]) for name, key in keys.items()}
    means = {name: np.empty((resamples, curve.shape[1])) for name, curve in curves.items()}
    for rows, counts in count_chunks(n, resamples, seed):
        for name, curve in curves.items():
            runs, shares = curve.shape[:2]
            sums = (counts @ flat[name]).reshape(len(counts), runs, shares, *curve.shape[3:])
            scores = sums / n if statistic is None else statistic(sums.astype(np.float64))
            drawn = bootstrap_indices(runs, len(counts), run_rngs[name])
            means[name][rows] = np.take_along_axis(scores, drawn[..., None], axis=1).mean(axis=1)
    return means
