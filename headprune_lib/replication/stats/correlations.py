"""Correlation of two noisy effects, with its interval and the ceiling that their noise sets."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike

from headprune_lib.replication.stats.bootstrap import bootstrap_indices
from headprune_lib.replication.stats.checks import Array, Estimate, numbers, same


def correlation(
    x: ArrayLike,
    y: ArrayLike,
    method: str = "pearson",
    resamples: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Estimate:
    """Correlation of x and y, both (heads,); percentile interval by bootstrap over heads.

    ``method`` is "pearson" or "spearman". Resamples in which one side is constant do not count.
    """
    x, y = numbers("x", x, axes=1), numbers("y", y, axes=1)
    same("shapes of x and y", x.shape, y.shape)
    tests = {"pearson": scipy.stats.pearsonr, "spearman": scipy.stats.spearmanr}
    if method not in tests or x.ndim != 1 or len(x) < 3 or min(np.ptp(x), np.ptp(y)) == 0:
        raise ValueError(
            f"method {method!r}, x and y of shape {x.shape}: expected pearson or "
            "spearman and at least 3 pairs that are not all alike"
        )
    drawn = bootstrap_indices(len(x), resamples, seed)
    sides = x[drawn], y[drawn]
    if method == "spearman":
        sides = tuple(scipy.stats.rankdata(side, axis=-1) for side in sides)
    low, high = np.nanquantile(
        _row_correlations(*sides), [(1 - confidence) / 2, (1 + confidence) / 2]
    )
    test = tests[method](x, y)
    return Estimate(float(test.statistic), float(low), float(high), float(test.pvalue))


def spearman_without_one(x: ArrayLike, y: ArrayLike) -> tuple[float, float]:
    """Least and largest Spearman correlation of x and y, both (heads,), with one head left out.

    A side without variation correlates 0.
    """
    x, y = numbers("x", x, axes=1), numbers("y", y, axes=1)
    same("shapes of x and y", x.shape, y.shape)
    if len(x) < 3:
        raise ValueError(f"{len(x)} heads; expected at least 3, so that two are left")
    others = ~np.eye(len(x), dtype=bool)
    sides = (
        scipy.stats.rankdata(
            np.broadcast_to(side, (len(x), len(x)))[others].reshape(len(x), -1), axis=-1
        )
        for side in (x, y)
    )
    found = np.nan_to_num(_row_correlations(*sides))
    return float(found.min()), float(found.max())


def partial_spearman(
    x: ArrayLike,
    y: ArrayLike,
    given: ArrayLike,
    groups: ArrayLike,
    resamples: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Estimate:
    """Spearman correlation of x and y, both (heads,), with others held fixed.

    Ranks of x, y and each row of ``given`` are taken over all heads; what least squares makes of
    the rows' ranks and of each group's mean is taken away from x's and y's, and the rest
    correlated. The percentile interval is by bootstrap over heads, ranks and all; p by Student's t
    with as many degrees of freedom as are left.

    Args:
        given: (rows, heads), may have no row.
        groups: (heads,) whole numbers, such as layers; all alike for none.

    Raises:
        ValueError: shapes that do not fit, or nothing left of x or y.
    """
    x, y = numbers("x", x, axes=1), numbers("y", y, axes=1)
    given = np.asarray(given, dtype=np.float64).reshape(-1, len(x))
    groups = numbers("groups", groups, axes=1)
    same("shapes of x and y", x.shape, y.shape)
    same("shapes of x and groups", x.shape, groups.shape)
    members = (groups[None] == np.unique(groups)[:, None]).astype(np.float64)  # (groups, heads)
    rest = len(x) - len(given) - len(members) - 1
    r = float(_partial(x[None], y[None], given[:, None], members[:, None])[0])
    if rest < 1 or math.isnan(r):
        raise ValueError(
            f"{len(x)} heads in {len(members)} groups, {len(given)} rows given: nothing is left of "
            "x or y to correlate; expected more heads, and none that the others determine"
        )
    drawn = bootstrap_indices(len(x), resamples, seed)
    low, high = np.nanquantile(
        _partial(x[drawn], y[drawn], given[:, drawn], members[:, drawn]),
        [(1 - confidence) / 2, (1 + confidence) / 2],
    )
    t = r * math.sqrt(rest / max(1 - r * r, np.finfo(float).tiny))
    return Estimate(r, float(low), float(high), float(2 * scipy.stats.t.sf(abs(t), rest)))


def _partial(x: Array, y: Array, given: Array, members: Array) -> Array:
    """(draws, heads) twice, (rows, draws, heads) and (groups, draws, heads) -> (draws,)."""
    ranked = [scipy.stats.rankdata(side, axis=-1) for side in (x, y, *given)]
    # the groups' columns add up to ones: no other constant
    columns = np.stack([*members, *ranked[2:]], axis=-1)  # (draws, heads, columns)
    inverse = np.linalg.pinv(columns)
    left = []
    for side in ranked[:2]:
        fitted = (columns @ (inverse @ side[..., None]))[..., 0]
        rest = side - fitted
        # what is determined leaves rounding errors, which correlate with anything
        nothing = np.abs(rest).max(-1, keepdims=True) < 1e-9 * side.shape[-1]
        left.append(np.where(nothing, 0, rest))
    return _row_correlations(*left)


def _row_correlations(x: Array, y: Array) -> Array:
    """Pearson's r of each row of x with the row of y; NaN where a row is constant."""
    varies = (np.ptp(x, axis=-1) > 0) & (np.ptp(y, axis=-1) > 0)
    x, y = (side - side.mean(axis=-1, keepdims=True) for side in (x, y))
    scale = np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))
    return np.divide((x * y).sum(axis=-1), scale, out=np.full_like(scale, np.nan), where=varies)


def split_half_reliability(
    per_example_effects: ArrayLike, splits: int = 100, seed: int = 0
) -> float:
    """Reliability of the mean effects of heads, from effects (heads, examples).

    Each split parts the examples at random in two halves and correlates, over heads, the mean
    effects of both; with r the mean over splits, Spearman-Brown's ``2 r / (1 + r)`` steps it up
    from half the examples to all. A split with a half that shows no difference counts as r = 0.
    """
    effects = numbers("per_example_effects", per_example_effects, axes=2)
    heads, examples = effects.shape
    if heads < 3 or examples < 2 or splits < 1:
        raise ValueError(
            f"per_example_effects is {effects.shape} with {splits} splits; expected "
            "at least 3 heads, 2 examples and 1 split"
        )
    rng, half = np.random.default_rng(seed), examples // 2
    first = rng.permuted(np.tile(np.arange(examples) < half, (splits, 1)), axis=1)
    sums = first @ effects.T  # (splits, heads)
    r = np.nan_to_num(_row_correlations(sums / half, (effects.sum(1) - sums) / (examples - half)))
    return float(2 * r.mean() / (1 + r.mean()))


def split_half_reliability_of(
    statistic: Callable[[Array], Array],
    uncut: ArrayLike,
    cuts: ArrayLike,
    splits: int = 100,
    seed: int = 0,
) -> float:
    """As :func:`split_half_reliability`, for effects that are no means of examples.

    ``uncut`` (examples, k) and ``cuts`` (heads, examples, k) as in :func:`bootstrap_scores`; the
    effect of a head on a half is the statistic of that half's sums, cut minus uncut.
    """
    uncut, cuts = numbers("uncut", uncut, axes=2), numbers("cuts", cuts, axes=3)
    same("(examples, counts) of uncut and cuts", uncut.shape, cuts.shape[1:])
    systems = np.concatenate([uncut[None], cuts])
    rng, n = np.random.default_rng(seed), systems.shape[1]
    first = rng.permuted(np.tile(np.arange(n) < n // 2, (splits, 1)), axis=1).astype(float)
    flat = systems.transpose(1, 0, 2).reshape(n, -1)

    def effects(members: Array) -> Array:  # (splits, heads)
        scores = statistic((members @ flat).reshape(splits, *systems.shape[::2]))
        return scores[:, 1:] - scores[:, :1]

    r = float(np.nan_to_num(_row_correlations(effects(first), effects(1 - first))).mean())
    return 2 * r / (1 + r)


def correlation_ceiling(rel_x: float, rel_y: float) -> float:
    """Largest correlation of two measures, ``sqrt(rel_x rel_y)``; reliabilities < 0 count as 0."""
    return math.sqrt(max(rel_x, 0.0) * max(rel_y, 0.0))
