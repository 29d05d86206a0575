"""Which heads first? Orders of removal by every criterion, beside each other. Not in the paper.

A part is an order on one training; what follows `` training `` in its name is the seed of one that
is not the first. With `` tuned`` after it, an order is followed with gates of the heads that are left,
fitted at each step. Masks that cut the same heads are evaluated once, whichever order cut them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headprune_lib.replication.data import TASKS, Texts
from headprune_lib.replication.measurements.compared import (
    ALPHAS,
    CONTROL_DRAWS,
    SHARES,
    loss_area,
    masks_along,
    n_random,
    runs_of,
    scores_of,
    shares_of,
)
from headprune_lib.replication.measurements.contrasts import (
    COMBINED,
    CONTROL,
    Statistics,
    Values,
    values_of,
)
from headprune_lib.replication.measurements.measurement import (
    Context,
    Half,
    Measurement,
    Own,
    Runs,
)
from headprune_lib.replication.measurements.orders import (
    Subject,
    further_training,
    training_in,
)
from headprune_lib.replication.measurements.shared_masks import outcomes_under
from headprune_lib.replication.measurements.tuned import TUNING, stored_gates, tuned
from headprune_lib.replication.metrics import SCORES
from headprune_lib.replication.order_names import read_name, tuned_in
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import EncoderSubject, TranslationSubject
from headprune_lib.replication.store import Arrays, Measured, Outcomes
from headprune_lib.replication.store.heads import heads_array

N_EXAMPLES, N_VERSES = 1_000, 256
"""Of the test text, at most: many orders are followed, each on several trainings."""


def _measure(context: Context, part: str) -> Measured:
    name, seed = training_in(part)
    order, gated = tuned_in(name)
    subject, journal = _subject(context, seed), context.journal
    shares, runs = shares_of(order), list(runs_of(context, order, subject))
    factors = [masks_along(subject, heads, shares) for heads, _ in runs]
    if gated:
        factors = [tuned(subject, masks, journal) for masks in factors]
    found = [outcomes_under(subject, along, tested(subject), journal) for along in factors]
    raw: Arrays = {
        "said": np.array([said for _, said in runs], np.str_),
        "order": np.stack([heads_array(heads) for heads, _ in runs]),
        "loss_area": np.stack([loss_area(shares, one["loss"]) for one in found]),
        "log_loss": np.stack([one["loss"].mean(-1) for one in found]),
        "shares": np.array(shares),
        **(stored_gates(factors) if gated else {}),
    }
    for kind, scores in scores_of(context, order, subject).items():
        raw[f"scores {kind}"] = scores.numpy()
    if isinstance(subject, TranslationSubject):
        counts = np.stack([one["counts"] for one in found])
        raw["counts_uncut"] = counts[0, 0]
        raw["counts_change"] = counts - counts[0, 0]
        raw["reference_lengths"] = found[0]["reference_lengths"]
        return subject.measured(raw, counts.shape[2])
    task = TASKS[context.profile.task]
    raw["correct"] = np.stack([one["correct"] for one in found])
    raw["labels"] = np.array(tested(subject).labels, np.int8)
    raw["metric"] = np.array(task.metric)
    n, unit = len(raw["labels"]), SCORES[task.metric].unit
    return subject.measured(raw, n_examples=n, metric=task.metric, unit=unit)


def _subject(context: Context, seed: int | None) -> Subject:
    if context.half == "encoder":
        return EncoderSubject.of(context.profile, seed)
    return TranslationSubject.of_listed(context.profile, context.task, seed)


def tested(subject: Subject) -> Texts:
    """The test text that orders are compared on."""
    if isinstance(subject, TranslationSubject):
        return subject.pairs("test").first(N_VERSES)
    return subject.test.first(N_EXAMPLES)


# --- what it is -----------------------------------------------------------------------------------


def _summarise(_half: Half, outcomes: Outcomes, runs: Runs, statistics: Statistics) -> Values:
    return values_of(outcomes, runs, statistics)


def _parameters(profile: Profile, half: Half) -> dict[str, Any]:
    if half == "encoder":
        n: dict[str, int] = {"n_examples": min(N_EXAMPLES, profile.n_examples or N_EXAMPLES)}
    else:
        n = {"n_verses": min(N_VERSES, profile.n_verses or N_VERSES)}
    return {**n, "shares": list(SHARES)}


def _trainings(profile: Profile, half: Half, task: str) -> list[int]:
    every = profile.seeds if half == "encoder" else profile.trainings(task)
    return every[: profile.compared_trainings]


def _parts(profile: Profile, half: Half, task: str) -> tuple[str, ...]:
    _first, *further = _trainings(profile, half, task)
    return (
        *profile.compared,
        *(further_training(seed, order) for seed in further for order in profile.compared),
    )


def _own(profile: Profile, half: Half, part: str) -> Own:
    name, seed = training_in(part)
    order, gated = tuned_in(name)
    values: dict[str, Any] = {"order": name, **({"tuning": TUNING} if gated else {})}
    if half == "encoder":
        values["n_scoring"] = profile.n_scoring
    if order == "random":
        values["draws"] = n_random(half, profile)
    elif order in (COMBINED, CONTROL):
        selected = {"n_selection": profile.n_selection} if half == "encoder" else {}
        values |= {**selected, "alphas": list(ALPHAS)}
        values |= {"draws": CONTROL_DRAWS} if order == CONTROL else {}
    else:
        values["criterion"] = read_name(order).criterion.version
    return Own(values, None if seed is None else (seed,))


WHICH_FIRST = Measurement(
    "which_first",
    1,
    {"encoder": Statistics(), "translation": Statistics()},
    _parameters,
    _measure,
    _summarise,
    ("encoder", "translation"),
    _parts,
    _own,
)
MEASUREMENTS = (WHICH_FIRST,)
