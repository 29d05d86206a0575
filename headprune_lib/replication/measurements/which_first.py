"""Which heads first? Orders of removal by every criterion, compared. Not in the paper.

A part is an order on one training. Where its name says ``tuned``, the heads that are left have
gates, fitted at each step. Masks that cut the same heads are evaluated once, whichever order cut
them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.bounds import ORDERS_UP_TO
from headprune_lib.replication.lazy import criteria, masking, selection, setups, torch
from headprune_lib.replication.measurements.base import (
    HALVES,
    Constants,
    Context,
    Half,
    Own,
    Runs,
    measurement,
)
from headprune_lib.replication.measurements.estimates import Drawn, scored
from headprune_lib.replication.measurements.orders import (
    TUNING,
    Subject,
    Texts,
    by_criterion,
    is_costly,
    losses_under,
    masks_along,
    measured_answers,
    n_random,
    outcomes_under,
    random_order,
    tuned,
)
from headprune_lib.replication.metrics import MILLINAT, coarse
from headprune_lib.replication.order_names import RANDOM, further_training, parse_part, read_name
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import Arrays, Measured, Outcomes
from headprune_lib.replication.store.packing import KINDS, heads_array, heads_in

N_EXAMPLES, N_VERSES = 1_000, 256
"""The most test texts used: many orders are followed, each on several trainings."""
SHARES = (*(i / 20 for i in range(11)), 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of heads removed at each step: in fine steps as far as orders are compared."""
COMPARED = tuple(share for share in SHARES if share <= ORDERS_UP_TO)
"""The shares over which orders are compared; the control is followed no further."""
STEPS = 20
"""The number of steps of an order that is scored again."""
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Weights of importance, one of which is chosen on training text."""
CONTROL_DRAWS = 20
COMBINED = "importance-entropy chosen"
"""Importance and entropy combined, with the weight of importance chosen on training text."""
CONTROL = "importance-entropy shuffled"
"""The same with entropies shuffled within their layer."""
CONTRASTS = {
    "combined against importance": (COMBINED, "importance"),
    "combined against its control": (COMBINED, CONTROL),
    "entropy against random": ("entropy", "random"),
    "scored again against once": ("importance rescored", "importance"),
    "not normalised against normalised": ("importance unnormalised", "importance"),
}
"""Name -> its two orders. The second contrast is a condition of the first, others stand alone."""


def tested(subject: Subject) -> Texts:
    """The test text that orders are compared on."""
    return subject.tested(
        N_VERSES if isinstance(subject, setups.TranslationSubject) else N_EXAMPLES
    )


# --- the orders -----------------------------------------------------------------------------------

_DRAWN = (RANDOM, COMBINED, CONTROL)
"""Orders that do not follow a single criterion."""
Chosen: TypeAlias = "tuple[list[selection.Head], str]"
"""The heads in order, and a note of what was chosen or drawn for it."""


def _runs_of(
    context: Context, order: str, subject: Subject, scores: masking.HeadTensors
) -> Iterator[Chosen]:
    """Every run of an order on a training: several if it is drawn.

    Args:
        scores: the scores that the order follows, from :func:`_scores_of`.

    Raises:
        ValueError: the order is neither ``"random"``, ``COMBINED``, ``CONTROL`` nor a criterion's.
    """
    finely = dataclasses.replace(context.profile, steps=STEPS)  # of orders scored again
    context = dataclasses.replace(context, profile=finely)
    if order == RANDOM:
        heads = selection.rank_heads(subject.importance(context.journal))
        for draw in range(n_random(context.half, context.profile)):
            yield random_order(heads, 1000 * subject.seed + draw), str(draw)
    elif order in (COMBINED, CONTROL):
        alpha, both = _chosen_alpha(context, subject), _both_scores(context, subject)
        if order == COMBINED:
            yield combined_order(alpha, *both), f"alpha={alpha:g}"
            return
        for draw in range(CONTROL_DRAWS):  # the same weight, but entropies of other heads
            yield combined_order(alpha, *both, draw), str(draw)
    elif (named := read_name(order)).rescored:
        yield by_criterion(context, named, subject), ""
    else:
        yield named.ranked(scores), ""


def _scores_of(context: Context, order: str, subject: Subject) -> masking.HeadTensors:
    """The scores that an order follows; none unless they are a criterion's, measured once."""
    if order in _DRAWN or (named := read_name(order)).rescored:
        return {}

    def measured() -> Arrays:
        scores = subject.scores(context.journal, named)
        return {f"scores {kind}": values.numpy() for kind, values in scores.items()}

    scores = context.settled(["scores *"], measured, costly=is_costly(named))
    return {
        kind: torch.from_numpy(scores[f"scores {kind}"])
        for kind in ("self", *KINDS)  # equal scores are ranked in the order of kinds
        if f"scores {kind}" in scores
    }


def loss_area(shares: tuple[float, ...], loss: np.ndarray) -> np.ndarray:
    """Each text's added loss, mean over 0 to 50% removed, in millinats to five binary digits.

    Args:
        loss: (steps, n) in nats, the unpruned model's first.
    """
    inside = np.array(shares) <= ORDERS_UP_TO + 1e-9
    added = stats.area_under_curve(np.array(shares)[inside], (loss[inside] - loss[0]).T)
    return np.rint(coarse(MILLINAT * added)).astype(np.int32)


def combined_order(
    alpha: float, important: masking.HeadTensors, wide: masking.HeadTensors, draw: int | None = None
) -> list[selection.Head]:
    """The order by importance and entropy; with a draw, entropies are shuffled within layers."""
    if draw is not None:
        wide = {kind: shuffled_within(values, draw) for kind, values in wide.items()}
    return selection.rank_heads(criteria.attention.combined(alpha, important, wide))


def shuffled_within(values: torch.Tensor, draw: int) -> torch.Tensor:
    """Values (layer, head), shuffled within each layer."""
    generator = torch.Generator().manual_seed(draw)
    places = [torch.randperm(values.shape[1], generator=generator) for _ in values]
    return torch.stack([row[order] for row, order in zip(values, places, strict=True)])


def _chosen_alpha(context: Context, subject: Subject) -> float:
    """The weight of importance that adds least loss over 0 to 50% removed, on training text."""
    both, added = _both_scores(context, subject), {}
    translator = isinstance(subject, setups.TranslationSubject)
    texts = subject.pairs("train") if translator else subject.selection
    for alpha in ALPHAS:
        masks = masks_along(subject, combined_order(alpha, *both), COMPARED)
        loss = losses_under(subject, masks, texts, context.journal)
        added[alpha] = float(loss_area(COMPARED, loss).mean())
    return min(ALPHAS, key=lambda alpha: added[alpha])


def _both_scores(
    context: Context, subject: Subject
) -> tuple[masking.HeadTensors, masking.HeadTensors]:
    """Importance (not normalised) and entropy of every head, each measured once."""
    important = subject.scores(context.journal, read_name("importance unnormalised"))
    return important, subject.scores(context.journal, read_name("entropy"))


# --- comparing orders: areas, and the contrasts that were fixed beforehand ------------------------

Order: TypeAlias = "dict[int, Arrays]"
"""The seed of each training, ascending -> the outcomes of an order's runs on it."""


@dataclass(frozen=True)
class _Areas:
    """An order's areas up to a share of the heads, on resampled trainings and texts.

    ``kept`` is the mean share kept along the curve, ``added`` the mean increase of a text's loss in
    nats, ``uncut`` the smallest score of the uncut model in all resamples.
    """

    kept: Drawn
    added: Drawn
    uncut: float


def read_orders(outcomes: Outcomes, runs: Runs) -> dict[str, Order]:
    """Order -> its outcomes on all trainings whose parts are there."""
    orders: dict[str, Order] = {}
    for part, raw in outcomes.items():
        orders.setdefault(parse_part(part).curve, {})[runs[part][0]["seed"]] = raw
    return {name: dict(sorted(order.items())) for name, order in orders.items()}


def compare(orders: dict[str, Order], statistics: Constants) -> dict[str, Any]:
    """Values of all orders, compared on the same resamples of trainings and texts.

    Orders are shown on the trainings that all of them have, so that they can be compared; if there
    are none, each is shown on its own. A contrast is over all trainings that its two orders share.

    Returns:
        ``shares``, ``chance``, ``least_above_chance`` (the smallest score above chance of the uncut
        model in all resamples: unless it is above 0, shares kept of it are meaningless),
        ``orders`` (see :func:`_shown`) and ``contrasts`` (see :func:`contrast`).
    """
    areas = {name: _areas(order, [*order], statistics) for name, order in orders.items()}
    shared = set.intersection(*({*order} for order in orders.values()))
    raws = [raw for order in orders.values() for raw in order.values()]
    chance = scored(raws[0]).chance
    return {
        "shares": max((raw["shares"] for raw in raws), key=len),
        "chance": chance,
        "least_above_chance": min(area.uncut for area in areas.values()) - chance,
        "orders": {
            name: _shown(order, sorted(shared or order), areas[name], statistics)
            for name, order in orders.items()
        },
        "contrasts": {
            name: contrast(orders[first], orders[second], statistics)
            for name, (first, second) in CONTRASTS.items()
            if orders.get(first, {}).keys() & orders.get(second, {}).keys()
        },
    }


def _shown(
    order: Order, trainings: list[int], areas: _Areas, statistics: Constants
) -> dict[str, Any]:
    """Mean curves over ``trainings``, and the two areas, of the share kept and of the added loss.

    A translator's loss is the mean over a reference's pieces. ``said`` is of every training that
    the order was followed on, as are ``areas``.
    """
    raws = [order[seed] for seed in trainings]
    if len(raws) < len(order):
        areas = _areas(order, trainings, statistics)
    runs = [scored(raw) for raw in raws]
    curve = _mean_over_trainings([of_training.scores for of_training in runs])
    return {
        "score": curve,
        "kept": stats.kept_above_chance(curve, curve[:1], runs[0].chance, nothing=0.0),
        "log_loss": _mean_over_trainings([raw["log_loss"] for raw in raws]),
        "area": _estimate(areas.kept),
        "added_loss": _estimate(areas.added),
        "said": [word for raw in order.values() for word in raw["said"].tolist() if word],
        "trainings": trainings,
    }


def contrast(first: Order, second: Order, statistics: Constants) -> dict[str, Any]:
    """How much more the first order keeps, and less loss it adds, on trainings that both have.

    Returns:
        the first order's ``area`` minus the second's, and the second's added ``loss`` minus the
        first's, so that more is better in both; and the ``trainings``.
    """
    trainings = sorted(first.keys() & second.keys())
    better, worse = (_areas(order, trainings, statistics) for order in (first, second))
    return {
        "area": _estimate(better.kept - worse.kept),
        "loss": _estimate(worse.added - better.added),
        "trainings": trainings,
    }


def _estimate(area: Drawn) -> dict[str, Any]:
    """A value with its 95% interval and the standard error of its resamples."""
    return {"value": area.value, "interval": [*area.interval], "error": float(area.drawn.std())}


def _mean_over_trainings(runs: Sequence[np.ndarray]) -> np.ndarray:
    """The mean over trainings of the mean over each one's runs."""
    return np.stack([np.ascontiguousarray(each).mean(0) for each in runs]).mean(0)


def _areas(order: Order, trainings: list[int], statistics: Constants) -> _Areas:
    raws = [order[seed] for seed in trainings]
    inside = raws[0]["shares"] <= statistics.up_to + 1e-9
    runs = [scored(raw) for raw in raws]
    counts, of, chance = [each.counts[:, inside] for each in runs], runs[0].of, runs[0].chance
    loss = [raw["loss_area"] for raw in raws]

    def area(curve: np.ndarray) -> np.ndarray:
        kept = stats.kept_above_chance(curve, curve[..., :1], chance, nothing=0.0)
        return stats.area_under_curve(raws[0]["shares"][inside], kept)

    def resampled(
        runs: list[np.ndarray], statistic: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> np.ndarray:
        return stats.bootstrap_curves(
            {"": np.concatenate(runs)},
            statistics.resamples,
            statistics.seed,
            statistic,
            trainings={"": np.repeat(trainings, [len(each) for each in runs])},
        )[""]

    curve = _mean_over_trainings([of(each.sum(2)) for each in counts])
    drawn = resampled(counts, of)
    added = _mean_over_trainings([each.mean(-1) for each in loss])
    drawn_added = resampled([each[:, None] for each in loss])[:, 0]
    return _Areas(
        Drawn(float(area(curve)), area(drawn)),
        Drawn(float(added) / MILLINAT, drawn_added / MILLINAT),
        float(drawn[:, 0].min()),
    )


# --- the measurement ------------------------------------------------------------------------------


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
    statistics=Constants(resamples=5_000, seed=0, up_to=ORDERS_UP_TO),
    halves=HALVES,
    parts=_parts,
    own=_own,
)
def which_first(context: Context, part: str) -> Measured:
    """Outcomes along every run of an order on one training, on the compared texts."""
    named, journal = parse_part(part, "tuned"), context.journal
    subject: Subject = context.subject(named.training)
    texts, scores = tested(subject), _scores_of(context, named.order, subject)

    def followed() -> Arrays:
        runs = list(_runs_of(context, named.order, subject, scores))
        return {
            "said": np.array([words for _, words in runs], np.str_),
            "order": np.stack([heads_array(heads) for heads, _ in runs]),
        }

    rescored = named.order not in _DRAWN and read_name(named.order).rescored
    # nothing is said of an order scored again, so a verification need not take that from the store
    settled = context.settled(
        ["order"] if rescored else ["said", "order"], followed, costly=rescored
    )
    runs = {"said": np.array([""]), **settled}
    orders = [heads_in(heads) for heads in runs["order"]]
    shares = COMPARED if named.order == CONTROL else SHARES
    factors, gates = [masks_along(subject, heads, shares) for heads in orders], {}
    if named.tuned:
        masks = factors
        gates = context.settled(["gates *"], lambda: tuned(subject, masks, journal))
        factors = [
            [
                {kind: torch.from_numpy(gates[f"gates {kind}"][run, step]) for kind in mask}
                for step, mask in enumerate(of_run)
            ]
            for run, of_run in enumerate(masks)
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
    else:
        raw["correct"] = np.stack([run["correct"] for run in outcomes])
    return measured_answers(subject, raw, texts)


@which_first.summary
def values_of(outcomes: Outcomes, runs: Runs, statistics: Constants) -> dict[str, Any]:
    """The values of :func:`compare`; a part is an order on one training."""
    return compare(read_orders(outcomes, runs), statistics)
