"""Are a criterion's scores those of other text and of other trainings, and what do they know of heads?

Not in the paper. A part is a criterion on the first training; what follows `` training `` in its name
is the seed of another one, which is scored on the task's own text alone.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.data import TASKS
from headprune_lib.replication.measurements.measurement import (
    Context,
    Half,
    Measurement,
    Own,
    Runs,
)
from headprune_lib.replication.measurements.one_head import ONE_HEAD
from headprune_lib.replication.measurements.records import Correlation, correlation_record
from headprune_lib.replication.measurements.scored_texts import scored_once, scores_on
from headprune_lib.replication.metrics import MILLINAT
from headprune_lib.replication.order_names import parse_part
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import EncoderSubject
from headprune_lib.replication.store import Arrays, Measured, Outcomes

CRITERIA = (
    "importance",
    "importance unnormalised",
    "fisher",
    "entropy",
    "logits-norm",
    "magnitude",
    "confidence",
)
"""That a profile measures without being asked for more."""
PLAIN = "importance unnormalised"
"""What is held fixed: Eq. 2 as it is."""


@dataclass(frozen=True)
class Statistics:
    """Resamples of the intervals over heads."""

    resamples: int = 10_000
    seed: int = 0


class Criterion(TypedDict):
    """Rank correlations of a criterion's scores.

    ``domains``: with those on other text; ``trainings``: of every two trainings, with the mean;
    ``effect``: with what the loss grows by without the head, ``given_layer`` and ``given_both``:
    the same with the layer, and with the layer and importance held fixed.
    """

    domains: dict[str, Correlation]
    trainings: list[dict[str, Any]]
    mean_trainings: float | None
    effect: Correlation | None
    given_layer: Correlation | None
    given_both: Correlation | None


class Values(TypedDict):
    """By criterion."""

    criteria: dict[str, Criterion]


def _measure(context: Context, part: str) -> Measured:
    order, _, seed = parse_part(part)[:3]
    named, profile = scored_once(order), context.profile
    subject = EncoderSubject.of(profile, seed)
    texts = {profile.task: subject.scoring}
    raw: Arrays = {}
    if seed is None:
        for domain in profile.domains:
            texts[domain] = TASKS[domain].split("test", profile.data).first(profile.n_domain)
        raw["effect"] = effect_of(context.get("one_head").raw)
    for name, examples in texts.items():
        found = scores_on(subject, named, examples, context.journal)
        raw[f"scores {name}"] = found["self"].numpy()
    raw["texts"] = np.array([*texts])
    return subject.measured(
        raw,
        dataset=f"{profile.task}/train",
        n_examples=len(subject.scoring),
        metric="scores of heads",
        unit="of the criterion",
    )


def effect_of(one_head: Arrays) -> np.ndarray:
    """(layer, head) in nats: what the mean loss grows by without the head."""
    places = one_head["heads"].T
    effect = np.full(places.max(1) + 1, np.nan)
    effect[tuple(places)] = one_head["loss_change"].mean(-1) / MILLINAT
    return effect


# --- what it is -----------------------------------------------------------------------------------


def _summarise(_half: Half, outcomes: Outcomes, runs: Runs, statistics: Statistics) -> Values:
    orders = dict.fromkeys(parse_part(name).curve for name in outcomes)
    return {"criteria": {order: _criterion(order, outcomes, runs, statistics) for order in orders}}


def _criterion(order: str, outcomes: Outcomes, runs: Runs, statistics: Statistics) -> Criterion:
    def ranked(x: np.ndarray, y: np.ndarray) -> Correlation:
        return correlation_record(
            x.ravel(), y.ravel(), "spearman", statistics.resamples, statistics.seed
        )

    home = {
        runs[name][0]["seed"]: _scores(raw)[0][1]
        for name, raw in outcomes.items()
        if parse_part(name).curve == order
    }
    trainings = [
        {"seeds": [one, other], **ranked(home[one], home[other])}
        for one, other in itertools.combinations(sorted(home), 2)
    ]
    known = [pair["r"] for pair in trainings if pair["r"] is not None]
    found: Criterion = {
        "domains": {},
        "trainings": trainings,
        "mean_trainings": float(np.mean(known)) if known else None,
        "effect": None,
        "given_layer": None,
        "given_both": None,
    }
    if order not in outcomes:  # on a further training alone
        return found
    first = outcomes[order]
    (_, own), *others = _scores(first)
    found["domains"] = {name: ranked(own, scores) for name, scores in others}
    found["effect"] = ranked(own, first["effect"])
    found["given_layer"] = _partial(own, first["effect"], [], statistics)
    if PLAIN in outcomes and scored_once(order).criterion.name != "importance":
        plain = _scores(outcomes[PLAIN])[0][1]
        found["given_both"] = _partial(own, first["effect"], [plain], statistics)
    return found


def _scores(raw: Arrays) -> list[tuple[str, np.ndarray]]:
    """The scores on each text, the own one first."""
    return [(str(name), raw[f"scores {name}"]) for name in raw["texts"]]


def _partial(
    scores: np.ndarray, effect: np.ndarray, given: list[np.ndarray], statistics: Statistics
) -> Correlation:
    if min(np.ptp(scores), np.ptp(effect)) == 0:
        return {"r": None, "interval": [None, None], "p": None}
    layers = np.broadcast_to(np.arange(len(scores))[:, None], scores.shape).ravel()
    found = stats.partial_spearman(
        scores.ravel(),
        effect.ravel(),
        [one.ravel() for one in given],
        layers,
        statistics.resamples,
        statistics.seed,
    )
    return {"r": found.value, "interval": [found.low, found.high], "p": found.p}


def _parameters(profile: Profile, _half: Half) -> dict[str, Any]:
    return {
        "n_scoring": profile.n_scoring,
        "n_domain": profile.n_domain,
        "domains": profile.domains,
    }


def _parts(_profile: Profile, _half: Half, _task: str) -> tuple[str, ...]:
    return CRITERIA


def _own(profile: Profile, _half: Half, part: str) -> Own:
    order, _, seed = parse_part(part)[:3]
    values = {"order": order, "criterion": scored_once(order).criterion.version}
    if seed is not None:
        return Own(values, (seed,))
    return Own({**values, "n_examples": profile.n_examples}, needs=(ONE_HEAD,))


def _texts(profile: Profile, _half: Half, task: str) -> tuple[str, ...]:
    return (task, *profile.domains)


MEASUREMENTS = (
    Measurement(
        "stability",
        1,
        {"encoder": Statistics()},
        _parameters,
        _measure,
        _summarise,
        parts=_parts,
        own=_own,
        texts=_texts,
    ),
)
