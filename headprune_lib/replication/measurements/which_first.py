"""Which heads first? Orders of removal by every criterion, beside each other. Not in the paper.

A part is an order on one training. Where its name says ``tuned``, the order is followed with gates
of the heads that are left, fitted at each step. Masks that cut the same heads are evaluated once,
whichever order cut them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.bounds import ORDERS_UP_TO
from headprune_lib.replication.lazy import criteria, masking, selection, setups, torch
from headprune_lib.replication.measurements.contrasts import (
    COMBINED,
    CONTROL,
    Statistics,
    values_of,
)
from headprune_lib.replication.measurements.measurement import (
    HALVES,
    Context,
    Half,
    Own,
    Runs,
    measurement,
)
from headprune_lib.replication.measurements.orders import (
    by_criterion,
    is_costly,
    n_random,
    random_order,
)
from headprune_lib.replication.measurements.removal import (
    TUNING,
    Subject,
    Texts,
    factors_along,
    losses_under,
    masks_along,
    measured_answers,
    outcomes_under,
    stored_gates,
    tuned,
)
from headprune_lib.replication.metrics import MILLINAT, coarse
from headprune_lib.replication.order_names import RANDOM, further_training, parse_part, read_name
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import Arrays, Measured, Outcomes
from headprune_lib.replication.store.heads import KINDS, heads_array, heads_in

N_EXAMPLES, N_VERSES = 1_000, 256
"""Of the test text, at most: many orders are followed, each on several trainings."""
SHARES = (*(i / 20 for i in range(11)), 0.6, 0.7, 0.8, 0.9, 1.0)
"""Of the heads, removed at each step: finely as far as orders are compared."""
COMPARED = tuple(share for share in SHARES if share <= ORDERS_UP_TO)
"""Those over which orders are compared, and as far as the control is followed."""
STEPS = 20
"""In which an order that is scored again removes heads."""
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Weights of importance, of which one is chosen on training text."""
CONTROL_DRAWS = 20


def tested(subject: Subject) -> Texts:
    """The test text that orders are compared on."""
    return subject.tested(
        N_VERSES if isinstance(subject, setups.TranslationSubject) else N_EXAMPLES
    )


# --- the orders -----------------------------------------------------------------------------------

_DRAWN = (RANDOM, COMBINED, CONTROL)
"""Orders that are no criterion's alone."""
Followed: TypeAlias = "tuple[list[selection.Head], str]"
"""An order, and what was chosen or drawn for it."""


def _runs_of(
    context: Context, order: str, subject: Subject, scores: masking.HeadTensors
) -> Iterator[Followed]:
    """Every run of an order on a training: several where it is drawn.

    Args:
        scores: those that it follows, as :func:`_scores_of` gives them.

    Raises:
        ValueError: the order is neither ``"random"``, ``COMBINED``, ``CONTROL`` nor a criterion's.
    """
    finely = dataclasses.replace(context.profile, steps=STEPS)  # what is scored again
    context = dataclasses.replace(context, profile=finely)
    if order == RANDOM:
        heads = selection.rank_heads(subject.importance(context.journal))
        for draw in range(n_random(context.half, context.profile)):
            yield random_order(heads, 1000 * subject.seed + draw), str(draw)
    elif order == CONTROL:  # the combined order's own weight, but entropies of other heads
        alpha, both = alpha_in(_chosen(context, subject)[1]), _both_scores(context, subject)
        for draw in range(CONTROL_DRAWS):
            yield combined_order(alpha, *both, draw), str(draw)
    elif order == COMBINED:
        yield _chosen(context, subject)
    elif (named := read_name(order)).rescored:
        yield by_criterion(context, named, subject), ""
    else:
        yield named.ranked(scores), ""


def _scores_of(context: Context, order: str, subject: Subject) -> masking.HeadTensors:
    """The scores that an order follows; none where it is drawn, or scored again at each step."""
    if order in _DRAWN or (named := read_name(order)).rescored:
        return {}

    def measured() -> Arrays:
        scores = subject.scores(context.journal, named)
        return {f"scores {kind}": values.numpy() for kind, values in scores.items()}

    scores = context.settled(["scores *"], measured, costly=is_costly(named))
    return {
        kind: torch.from_numpy(scores[f"scores {kind}"])
        for kind in ("self", *KINDS)  # equal ranks of two kinds go by their order
        if f"scores {kind}" in scores
    }


def loss_area(shares: tuple[float, ...], loss: np.ndarray) -> np.ndarray:
    """What each text's loss grows by, mean over 0 to 50% removed, in thousandths of a nat.

    Args:
        loss: (steps, n) in nats, the unpruned model's first. To five binary digits.
    """
    inside = np.array(shares) <= ORDERS_UP_TO + 1e-9
    added = stats.area_under_curve(np.array(shares)[inside], (loss[inside] - loss[0]).T)
    return np.rint(coarse(MILLINAT * added)).astype(np.int32)


def combined_order(
    alpha: float, important: masking.HeadTensors, wide: masking.HeadTensors, draw: int | None = None
) -> list[selection.Head]:
    """By importance and entropy; with a draw, entropies change places within their layers."""
    if draw is not None:
        wide = {kind: shuffled_within(values, draw) for kind, values in wide.items()}
    return selection.rank_heads(criteria.attention.combined(alpha, important, wide))


def alpha_in(said: str) -> float:
    """The weight in what is said of a combined order.

    >>> alpha_in("alpha=0.25")
    0.25
    """
    return float(said.removeprefix("alpha="))


def shuffled_within(values: torch.Tensor, draw: int) -> torch.Tensor:
    """(layer, head) with the heads of each layer in another order."""
    generator = torch.Generator().manual_seed(draw)
    places = [torch.randperm(values.shape[1], generator=generator) for _ in values]
    return torch.stack([row[order] for row, order in zip(values, places, strict=True)])


def _chosen(context: Context, subject: Subject) -> Followed:
    """The weight whose order adds least loss over 0 to 50% removed, on training text."""
    both, added = _both_scores(context, subject), {}
    translator = isinstance(subject, setups.TranslationSubject)
    texts = subject.pairs("train") if translator else subject.selection
    for alpha in ALPHAS:
        masks = masks_along(subject, combined_order(alpha, *both), COMPARED)
        loss = losses_under(subject, masks, texts, context.journal)
        added[alpha] = float(loss_area(COMPARED, loss).mean())
    best = min(ALPHAS, key=lambda alpha: added[alpha])
    return combined_order(best, *both), f"alpha={best:g}"


def _both_scores(
    context: Context, subject: Subject
) -> tuple[masking.HeadTensors, masking.HeadTensors]:
    """Importance (not normalised) and entropy of every head, each measured once."""
    important = subject.scores(context.journal, read_name("importance unnormalised"))
    return important, subject.scores(context.journal, read_name("entropy"))


# --- what it is -----------------------------------------------------------------------------------


def _parameters(profile: Profile, half: Half) -> dict[str, Any]:
    if half == "encoder":
        n: dict[str, int] = {"n_examples": min(N_EXAMPLES, profile.n_examples or N_EXAMPLES)}
    else:
        n = {"n_verses": min(N_VERSES, profile.n_verses or N_VERSES)}
    return {**n, "shares": list(SHARES)}


def _parts(profile: Profile, half: Half, task: str) -> tuple[str, ...]:
    every = profile.seeds if half == "encoder" else profile.trainings(task)
    further = every[1 : profile.compared_trainings]
    return (
        *profile.compared,
        *(further_training(seed, order) for seed in further for order in profile.compared),
    )


def _own(profile: Profile, half: Half, part: str) -> Own:
    named = parse_part(part, "tuned")
    values: dict[str, Any] = {"order": named.curve}
    if named.tuned:
        values["tuning"] = TUNING
    if half == "encoder":
        values["n_scoring"] = profile.n_scoring
    if named.order == RANDOM:
        values["draws"] = n_random(half, profile)
    elif named.order in (COMBINED, CONTROL):
        values |= {"n_selection": profile.n_selection} if half == "encoder" else {}
        values["alphas"] = list(ALPHAS)
        values |= {"draws": CONTROL_DRAWS} if named.order == CONTROL else {}
    else:
        values["criterion"] = read_name(named.order).criterion.version
    return Own(values, None if named.training is None else (named.training,))


@measurement(
    "which_first",
    version=1,
    parameters=_parameters,
    statistics=Statistics(),
    halves=HALVES,
    parts=_parts,
    own=_own,
)
def which_first(context: Context, part: str) -> Measured:
    """Outcomes along every run of an order on one training, on the compared texts."""
    named, journal = parse_part(part, "tuned"), context.journal
    if context.half == "encoder":
        subject: Subject = setups.EncoderSubject.of(context.profile, named.training)
    else:
        subject = setups.TranslationSubject.of_listed(context.profile, context.task, named.training)
    texts, scores = tested(subject), _scores_of(context, named.order, subject)

    def followed() -> Arrays:
        runs = list(_runs_of(context, named.order, subject, scores))
        return {
            "said": np.array([words for _, words in runs], np.str_),
            "order": np.stack([heads_array(heads) for heads, _ in runs]),
        }

    rescored = named.order not in _DRAWN and read_name(named.order).rescored
    # of what is scored again nothing is said, which a verification need not take as it is stored
    settled = context.settled(
        ["order"] if rescored else ["said", "order"], followed, costly=rescored
    )
    runs = {"said": np.array([""]), **settled}
    orders = [heads_in(heads) for heads in runs["order"]]
    shares = COMPARED if named.order == CONTROL else SHARES
    factors, gates = [masks_along(subject, heads, shares) for heads in orders], {}
    if named.tuned:
        masks = factors
        gates = context.settled(
            ["gates *"], lambda: stored_gates([tuned(subject, of_run, journal) for of_run in masks])
        )
        factors = [
            factors_along(subject, gates, run, heads, shares) for run, heads in enumerate(orders)
        ]
    outcomes = [outcomes_under(subject, of_run, texts, journal) for of_run in factors]
    raw: Arrays = {
        **runs,
        "loss_area": np.stack([loss_area(shares, run["loss"]) for run in outcomes]),
        "log_loss": np.stack([run["loss"].mean(-1) for run in outcomes]),
        "shares": np.array(shares),
        **gates,
        **{f"scores {kind}": values.numpy() for kind, values in scores.items()},
    }
    if isinstance(subject, setups.TranslationSubject):
        counts = np.stack([run["counts"] for run in outcomes])
        raw["counts_uncut"] = counts[0, 0]
        raw["counts_change"] = counts - counts[0, 0]
        raw["reference_lengths"] = outcomes[0]["reference_lengths"]
        return subject.measured(raw, len(texts))
    raw["correct"] = np.stack([run["correct"] for run in outcomes])
    return measured_answers(subject, raw, texts)


@which_first.summary
def _(outcomes: Outcomes, runs: Runs, statistics: Statistics) -> dict[str, Any]:
    return values_of(outcomes, runs, statistics)
