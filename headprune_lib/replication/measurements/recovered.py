"""What training again brings back: scores before and after it, and what is left of an order's lead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.measurements.curves import score_of
from headprune_lib.replication.measurements.records import (
    Difference,
    difference_record,
    interval_record,
)
from headprune_lib.replication.metrics import MILLINAT, corpus_bleu, unpack
from headprune_lib.replication.store import Arrays

NO_ORDER, RANDOM = "uncut", "random"
Asked = tuple[str, float, str]
"""An order, the share of the heads that it removed, and a way of training."""


@dataclass(frozen=True)
class Statistics:
    """Resamples of the intervals over test examples."""

    resamples: int = 10_000
    seed: int = 0


class State(TypedDict):
    """The mean over an order's runs, with 95% intervals over test examples; ``runs`` one by one.

    BLEU as a fraction: 0.25 is what is printed as 25. ``kept`` is the share of the score above chance
    that the uncut model has before it is trained again; ``loss`` is in nats, of a translator in the
    mean over a reference's pieces.
    """

    score: float
    interval: np.ndarray
    runs: np.ndarray
    kept: float
    kept_interval: np.ndarray
    loss: float
    loss_interval: np.ndarray


class Recovered(TypedDict):
    """A part: ``removed`` heads are gone, ``left`` of ``parameters``; ``seconds`` a training."""

    order: str
    share: float
    way: str
    removed: int
    parameters: int
    left: int
    seconds: float
    before: State
    after: State


class Lead(TypedDict):
    """An order's score and loss minus the mean of the random orders', before and after training."""

    order: str
    share: float
    way: str
    before: Difference
    after: Difference
    loss_before: Difference
    loss_after: Difference


class Values(TypedDict):
    """``chance`` is the best score of one and the same answer, ``whole`` the uncut model's score."""

    chance: float
    whole: float
    recovered: list[Recovered]
    leads: list[Lead]


@dataclass(frozen=True)
class _Drawn:
    """Of an order's runs: scores and losses, (runs,), and their means on resamples."""

    scores: np.ndarray
    drawn: np.ndarray
    losses: np.ndarray
    drawn_losses: np.ndarray


def values_of(outcomes: Mapping[Asked, Arrays], statistics: Statistics) -> Values:
    """What a page says; all parts are seen on the same resamples of test examples.

    Rows by way of training, share and order, whichever part was measured first.
    """
    outcomes = {asked: outcomes[asked] for asked in sorted(outcomes, key=_place)}
    first = next(iter(outcomes.values()))
    score = _score_of(first)

    def drawn(raw: Arrays, when: str) -> _Drawn:
        counts = score.counts(raw, when)
        nats = np.atleast_2d(raw[f"loss_{when}"])[..., None] / MILLINAT
        resamples, seed = statistics.resamples, statistics.seed
        scores = stats.bootstrap_scores(score.of, counts, resamples, seed)
        losses = stats.bootstrap_scores(
            lambda sums: sums[..., 0] / nats.shape[1], nats, resamples, seed
        )
        return _Drawn(score.of(counts.sum(1)), scores.mean(1), nats.mean((1, 2)), losses.mean(1))

    chance, uncut = score.chance, drawn(first, "uncut")
    found = {
        asked: tuple(drawn(raw, when) for when in ("before", "after"))
        for asked, raw in outcomes.items()
    }
    return {
        "chance": chance,
        "whole": float(uncut.scores[0]),
        "recovered": [
            _row(asked, raw, *(_state(one, uncut, chance) for one in found[asked]))
            for asked, raw in outcomes.items()
        ],
        "leads": [
            _lead(asked, found[asked], found[other])
            for asked in outcomes
            if asked[0] not in (NO_ORDER, RANDOM) and (other := (RANDOM, *asked[1:])) in found
        ],
    }


@dataclass(frozen=True)
class _Score:
    """A score of summed counts: ``counts`` gives (runs, n, k) of a part before or after training."""

    of: Callable[[np.ndarray], np.ndarray]
    counts: Callable[[Arrays, str], np.ndarray]
    chance: float


def _score_of(first: Arrays) -> _Score:
    if "reference_lengths" in first:
        return _Score(lambda sums: corpus_bleu(sums) / 100, _translated, 0.0)
    score, labels = score_of(first), first["labels"]
    return _Score(
        score.of,
        lambda raw, when: score.counts(np.atleast_2d(raw[f"correct_{when}"]), labels),
        score.chance(labels),
    )


def _translated(raw: Arrays, when: str) -> np.ndarray:
    counts = unpack(raw[f"counts_{when}"], raw["reference_lengths"])
    return counts.reshape(-1, *counts.shape[-2:])


def _place(asked: Asked) -> tuple[bool, float, str]:
    order, share, way = asked
    return way == "LoRA", share, order


def _row(asked: Asked, raw: Arrays, before: State, after: State) -> Recovered:
    order, share, way = asked
    parameters, left = raw["parameters"].mean(0)  # as many heads are gone in every run
    return {
        "order": order,
        "share": share,
        "way": way,
        "removed": raw["heads"].shape[1],
        "parameters": round(parameters),
        "left": round(left),
        "seconds": float(raw["seconds"].mean()),
        "before": before,
        "after": after,
    }


def _state(one: _Drawn, uncut: _Drawn, chance: float) -> State:
    return {
        "score": float(one.scores.mean()),
        "interval": interval_record(one.drawn),
        "runs": one.scores,
        "kept": float(_kept(one.scores.mean(), uncut.scores[0], chance)),
        "kept_interval": interval_record(_kept(one.drawn, uncut.drawn, chance)),
        "loss": float(one.losses.mean()),
        "loss_interval": interval_record(one.drawn_losses),
    }


def _kept(score: np.ndarray, whole: np.ndarray, chance: float) -> np.ndarray:
    """Share of what the uncut model has above chance; NaN where that is nothing."""
    above = np.asarray(whole - chance, float)
    nothing = np.full_like(above, np.nan)
    return np.divide(np.asarray(score - chance, float), above, out=nothing, where=above > 0)


def _lead(asked: Asked, one: tuple[_Drawn, ...], other: tuple[_Drawn, ...]) -> Lead:
    order, share, way = asked
    (before, loss_before), (after, loss_after) = (
        (
            difference_record(
                float(mine.scores.mean() - theirs.scores.mean()), mine.drawn - theirs.drawn
            ),
            difference_record(
                float(mine.losses.mean() - theirs.losses.mean()),
                mine.drawn_losses - theirs.drawn_losses,
            ),
        )
        for mine, theirs in zip(one, other, strict=True)
    )
    return {
        "order": order,
        "share": share,
        "way": way,
        "before": before,
        "after": after,
        "loss_before": loss_before,
        "loss_after": loss_after,
    }
