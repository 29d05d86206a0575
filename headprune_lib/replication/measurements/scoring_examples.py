"""How many sentences does a criterion need? Not in the paper. A part is a criterion.

Draws share no sentence, and each larger one of a draw contains the smaller.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import scipy.stats

from headprune_lib.replication.data import TASKS, Texts
from headprune_lib.replication.measurements import contrasts
from headprune_lib.replication.measurements.contrasts import Estimate, contrast, follow
from headprune_lib.replication.measurements.measurement import (
    Context,
    Half,
    Measurement,
    Own,
    Runs,
)
from headprune_lib.replication.measurements.records import interval_record
from headprune_lib.replication.measurements.removal import masks_along, outcomes_under
from headprune_lib.replication.measurements.scored_texts import scored_once, scores_on
from headprune_lib.replication.measurements.which_first import (
    COMPARED,
    N_EXAMPLES,
    loss_area,
    tested,
)
from headprune_lib.replication.metrics import SCORES
from headprune_lib.replication.order_names import further_training
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import EncoderSubject
from headprune_lib.replication.store import Arrays, Measured, Outcomes
from headprune_lib.replication.store.heads import heads_array
from headprune_lib.selection import rank_heads

SIZES = (16, 64, 256, 1_000)
"""Sentences; all that there are, twice as many as I_h is measured on elsewhere, come last."""
DRAWS = 3
CRITERIA = ("importance", "entropy")
"""That a profile measures without being asked for more."""


@dataclass(frozen=True)
class Statistics:
    """Resamples of the bootstrap over draws and test sentences, or draws and heads."""

    resamples: int = 5_000
    seed: int = 0


class Size(TypedDict):
    """What so many sentences give.

    ``with_all`` is the mean rank correlation with the scores on all sentences, ``each`` that of
    every draw, ``between`` the mean of two draws; ``lost`` and ``loss_lost`` are what the order
    on all sentences keeps more, and adds less in nats.
    """

    n: int
    with_all: dict[str, Any]
    each: list[float]
    between: float | None
    area: Estimate
    added_loss: Estimate
    lost: Estimate
    loss_lost: Estimate


class Values(TypedDict):
    """By criterion, the smallest number of sentences first."""

    criteria: dict[str, list[Size]]


def _measure(context: Context, part: str) -> Measured:
    named = scored_once(part)
    subject = EncoderSubject.of(context.profile)
    wide = dataclasses.replace(
        subject,
        profile=dataclasses.replace(context.profile, n_scoring=n_pool(context.profile)),
    )
    wide.check_apart()
    found: list[dict[str, Any]] = []
    for n, draw, texts in drawn(wide.scoring):
        scores = scores_on(subject, named, texts, context.journal)
        order = rank_heads(scores)[:: -1 if named.reverse else 1]
        masks = masks_along(subject, order, COMPARED)
        made = outcomes_under(subject, masks, tested(subject), context.journal)
        found.append(
            {
                "n": n,
                "draw": draw,
                "scores": scores["self"].numpy(),
                "order": heads_array(order),
                "correct": made["correct"],
                "loss_area": loss_area(COMPARED, made["loss"]),
                "log_loss": made["loss"].mean(-1),
            }
        )
    task = TASKS[context.profile.task]
    raw: Arrays = {name: np.stack([one[name] for one in found]) for name in found[0]}
    raw["shares"] = np.array(COMPARED)
    raw["labels"] = np.array(tested(subject).labels, np.int8)
    raw["metric"] = np.array(task.metric)
    unit = SCORES[task.metric].unit
    return subject.measured(raw, n_examples=len(raw["labels"]), metric=task.metric, unit=unit)


def n_pool(profile: Profile) -> int:
    """How many training sentences draws are made of: the last ones, apart from ``selection``."""
    return 2 * profile.n_scoring


def sizes_of(n: int) -> tuple[int, ...]:
    """Of which several draws can be made that share none, and all.

    >>> sizes_of(4000), sizes_of(64)
    ((16, 64, 256, 1000, 4000), (16, 64))
    """
    return (*(size for size in SIZES if DRAWS * size <= n), n)


def drawn(texts: Texts) -> Iterator[tuple[int, int, Texts]]:
    """Number of sentences, number of the draw, and the sentences; all of them are one draw."""
    *sizes, whole = sizes_of(len(texts))
    places = np.random.default_rng(0).permutation(len(texts)).tolist()
    for size in sizes:
        for draw in range(DRAWS):
            first = draw * sizes[-1]
            yield size, draw, texts.rows(places[first : first + size])
    yield whole, 0, texts


# --- what it is -----------------------------------------------------------------------------------


def _summarise(_half: Half, outcomes: Outcomes, _runs: Runs, statistics: Statistics) -> Values:
    return {"criteria": {name: _sizes(raw, statistics) for name, raw in outcomes.items()}}


def _sizes(raw: Arrays, statistics: Statistics) -> list[Size]:
    sizes = [int(n) for n in np.unique(raw["n"])]
    # a number of sentences as an order, a draw as a training of it
    outcomes, runs = {}, {}
    for n, draw in itertools.product(sizes, range(DRAWS)):
        name = further_training(draw, str(n))
        outcomes[name], runs[name] = _run(raw, n, draw), [{"seed": draw}]
    own = contrasts.Statistics(statistics.resamples, statistics.seed)
    orders, followed = contrasts.values_of(outcomes, runs, own)["orders"], follow(outcomes, runs)
    whole = followed[str(sizes[-1])]
    found: list[Size] = []
    for n in sizes:
        lost = contrast(whole, followed[str(n)], whole.trainings, own)
        found.append(
            {
                "n": n,
                **_ranks(raw, n, statistics),
                "area": orders[str(n)]["area"],
                "added_loss": orders[str(n)]["added_loss"],
                "lost": lost["area"],
                "loss_lost": lost["loss"],
            }
        )
    return found


def _run(raw: Arrays, n: int, draw: int) -> Arrays:
    """A draw as an order on one training; of all sentences there is one, which stands for each."""
    (rows,) = np.nonzero(raw["n"] == n)
    row = rows[draw % len(rows)]
    return {
        "said": np.array([""], np.str_),
        **{name: raw[name][row : row + 1] for name in ("correct", "loss_area", "log_loss")},
        **{name: raw[name] for name in ("shares", "labels", "metric")},
    }


def _ranks(raw: Arrays, n: int, statistics: Statistics) -> dict[str, Any]:
    """Rank correlations of the draws with all sentences, resampled over draws and heads."""
    flat = raw["scores"].reshape(len(raw["n"]), -1)
    own, whole = flat[raw["n"] == n], flat[raw["n"] == raw["n"].max()][0]
    each = [_spearman(one, whole) for one in own]
    generator = np.random.default_rng([statistics.seed, n])
    heads = generator.integers(0, flat.shape[1], (statistics.resamples, flat.shape[1]))
    again = np.stack([_spearman(one[heads], whole[heads]) for one in own], axis=1)
    chosen = generator.integers(0, len(own), (statistics.resamples, len(own)))
    means = np.take_along_axis(again, chosen, axis=1).mean(1)
    pairs = [_spearman(own[i], own[j]) for i in range(len(own)) for j in range(i)]
    return {
        "with_all": {"value": float(np.mean(each)), "interval": interval_record(means)},
        "each": [float(one) for one in each],
        "between": float(np.mean(pairs)) if pairs else None,
    }


def _spearman(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of the last axes; 0 where one does not vary."""
    ranks = (scipy.stats.rankdata(side, axis=-1) for side in (x, y))
    x, y = (side - side.mean(-1, keepdims=True) for side in ranks)
    scale = np.sqrt((x * x).sum(-1) * (y * y).sum(-1))
    return np.divide((x * y).sum(-1), scale, out=np.zeros_like(scale), where=scale > 0)


def _parameters(profile: Profile, _half: Half) -> dict[str, Any]:
    return {
        "n_examples": min(N_EXAMPLES, profile.n_examples or N_EXAMPLES),
        "shares": list(COMPARED),
        "sizes": list(sizes_of(n_pool(profile))),
        "draws": DRAWS,
    }


def _parts(_profile: Profile, _half: Half, _task: str) -> tuple[str, ...]:
    return CRITERIA


def _own(_profile: Profile, _half: Half, part: str) -> Own:
    return Own({"order": part, "criterion": scored_once(part).criterion.version})


MEASUREMENTS = (
    Measurement(
        "scoring_examples",
        1,
        {"encoder": Statistics()},
        _parameters,
        _measure,
        _summarise,
        parts=_parts,
        own=_own,
    ),
)
