"""Numbers of the page "The translation models"."""

from __future__ import annotations

from typing import Any

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.tables.pages import NOT_MEASURED, estimate, number
from headprune_lib.replication.store.results import Result

_COSTLY = 2.0  # BLEU
_LEAST = 3  # cuts that a correlation needs
_CUTS = {"all": "all", "cut": "one head cut", "alone": "one head left in a layer"}


def translation_models(search: Result) -> Numbers:
    """The comparison of greedy with beam search: BLEU, and rank correlations of effects.

    A correlation is not measured where no cut had any effect.
    """
    numbers: Numbers = {
        "search_n": search.n_examples,
        "greedy_bleu": search.values["bleu"]["beam 1"],
        "beam_bleu": search.values["bleu"]["beam 5"],
    }
    for name, cuts in _CUTS.items():
        found = search.values["spearman"][cuts]
        low, high = found["interval"]
        numbers |= {
            f"rank_{name}": number(found["r"], ".2f"),
            f"rank_{name}_low": number(low, ".2f"),
            f"rank_{name}_high": number(high, ".2f"),
        }
    small = _small(search.values["cuts"])
    numbers["n_small"] = len(small)
    numbers["rank_small"] = _rank(small)
    numbers["cost_of_two"] = number(_cost_under_the_other(search.values["cuts"]), ".1f")
    return numbers


def _small(cuts: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """Losses under both searches of the cuts that cost at most 2 BLEU under either."""
    losses = [(-cut["beam 1"], -cut["beam 5"]) for cut in cuts]
    return [pair for pair in losses if max(pair) <= _COSTLY]


def _rank(pairs: list[tuple[float, float]]) -> str:
    """Spearman's correlation, with its interval; not measured where nothing varies."""
    one, two = np.array(pairs).reshape(-1, 2).T
    if len(pairs) < _LEAST or min(np.ptp(one), np.ptp(two)) == 0:
        return NOT_MEASURED
    found = stats.correlation(one, two, "spearman")
    return estimate(found.value, (found.low, found.high))


def _cost_under_the_other(cuts: list[dict[str, Any]]) -> float | None:
    """The smallest loss under one search of a cut that costs above 2 BLEU under the other."""
    losses = [(-cut["beam 1"], -cut["beam 5"]) for cut in cuts]
    return min((min(pair) for pair in losses if max(pair) > _COSTLY), default=None)
