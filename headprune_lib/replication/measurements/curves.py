"""Heads removed together in different orders (section 4.2, appendix B: Figures 3 and 6).

Also heads of one kind of attention only (section 5: Figure 4). Every curve has the axes (run, step,
text). A run is a training or a draw of a random order, a step a share of heads removed; the first
step is the whole model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.bounds import C4_SHOWN, C4_UP_TO, C8_UP_TO, TOLERANCES
from headprune_lib.replication.measurements.base import (
    HALVES,
    Constants,
    Context,
    Half,
    Own,
    measurement,
)
from headprune_lib.replication.measurements.estimates import (
    Difference,
    Drawn,
    Scored,
    joined,
    mean_curves,
    prunable_record,
    scored,
)
from headprune_lib.replication.measurements.orders import (
    ENCODER,
    EVERY,
    FEW,
    ONE_BY_ONE,
    along,
    n_random,
    orders_of,
    read_order,
    training_sweep,
)
from headprune_lib.replication.measurements.single_heads import one_head
from headprune_lib.replication.order_names import (
    IMPORTANCE,
    RANDOM,
    PartName,
    further_training,
    parse_part,
)
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import Arrays, Measured, Outcomes, prefixed
from headprune_lib.replication.store.packing import BESIDE, KINDS

# --- the curves of a result -----------------------------------------------------------------------


STATISTICS = Constants(resamples=5_000, seed=0, tolerances=TOLERANCES, early=C8_UP_TO)
"""Of curves: orders are compared over the whole curve, and up to the share ``early`` removed."""


MAIN = "importance main"
"""Importance on the first training only: the one that most other orders are measured on."""


@dataclass(frozen=True)
class Curves:
    """Score curves of several orders.

    Attributes:
        runs: order -> (runs, steps).
        means: order -> (steps,).
    """

    shares: np.ndarray
    chance: float
    runs: dict[str, np.ndarray]
    means: dict[str, Drawn]

    def difference(
        self, one: str, other: str, statistic: Callable[[np.ndarray], np.ndarray]
    ) -> Difference:
        """A statistic of one order's mean curve minus that of another's, paired."""
        return (self.means[one].map(statistic) - self.means[other].map(statistic)).difference

    def area(self, scores: np.ndarray, up_to: float = 1.0) -> np.ndarray:
        """Mean score along the curve up to a share removed: the area under it over that width."""
        inside = self.shares <= up_to + 1e-9
        return stats.area_under_curve(self.shares[inside], scores[..., inside])

    def kept(self, scores: np.ndarray) -> np.ndarray:
        """Share of the whole model's score above chance, along (..., steps)."""
        return stats.kept_above_chance(scores, scores[..., :1], self.chance)


def parts_of_orders(parts: Iterable[str]) -> dict[str, list[str]]:
    """Order -> the parts that hold its runs, the first training's before those of further ones.

    A further training is included once importance and every other order with further trainings
    have it: only then are the orders' means over the same trainings. If an order lacks the first
    training, each part counts as an order of its own.
    """
    trainings: dict[str, dict[int | None, str]] = {}
    for part in parts:
        named = parse_part(part)
        trainings.setdefault(named.curve, {})[named.training] = part
    if not all(None in of_order for of_order in trainings.values()):
        return {part: [part] for of_order in trainings.values() for part in of_order.values()}
    further = {order: {*of_order} - {None} for order, of_order in trainings.items()}
    compared = [
        seeds
        for order, seeds in further.items()
        if seeds or parse_part(order, "kind").order == IMPORTANCE
    ]
    shared = sorted(set.intersection(*compared)) if compared else []
    return {
        order: [of_order[None], *(of_order[training] for training in shared if further[order])]
        for order, of_order in trainings.items()
    }


def _by_order(outcomes: Outcomes, way: str = "") -> dict[str, Scored]:
    """Order -> the outcomes of its runs; ``MAIN`` -> importance on the first training only."""
    curves = {
        order: joined([scored(outcomes[part], way) for part in parts])
        for order, parts in parts_of_orders(outcomes).items()
    }
    of_encoder = "labels" in next(iter(outcomes.values()))
    if IMPORTANCE in outcomes and (of_encoder or len(curves[IMPORTANCE].counts) > 1):
        every = curves[IMPORTANCE]
        curves[MAIN] = dataclasses.replace(every, counts=every.counts[:1])
    return curves


def read_curves(outcomes: Outcomes, statistics: Constants) -> Curves:
    """The curves in the outcomes of a result's parts."""
    by_order = _by_order(outcomes)
    return Curves(
        next(iter(outcomes.values()))["shares"],
        next(iter(by_order.values())).chance,
        {name: runs.scores for name, runs in by_order.items()},
        mean_curves(by_order, statistics),
    )


def curve_values(outcomes: Outcomes, curves: Curves, statistics: Constants) -> dict[str, Any]:
    """The values of each order on its own.

    Returns:
        ``curves`` (order -> ``mean`` and ``interval`` of the score after each step, and ``runs``),
        ``kept`` (the same of the share kept above chance) and ``prunable`` (see
        :func:`prunable_record`). An encoder's curve also has the ``names`` of its runs, its
        ``log_loss``, and its ``accuracy`` if the score is another one; ``sacrebleu`` is the mean of
        sacrebleu's own BLEU, where the score is BLEU of Moses' tokens.
    """
    of_orders: dict[str, dict[str, Any]] = {}
    kept, prunable, parts = {}, {}, parts_of_orders(outcomes)
    for name, mean in curves.means.items():
        runs, share = curves.runs[name], mean.map(curves.kept)
        of_orders[name] = {"mean": mean.value, "runs": runs, "interval": mean.interval}
        kept[name] = {"kept": share.value, "interval": share.interval}
        prunable[name] = prunable_record(curves.shares, mean, curves.chance, statistics.tolerances)
        raws = [outcomes[part] for part in parts[IMPORTANCE if name == MAIN else name]]
        if "correct" in raws[0]:
            of_orders[name] |= _of_encoder(raws, len(runs))
    if all(f"{BESIDE}counts_uncut" in raw for raw in outcomes.values()):
        for name, scores in _by_order(outcomes, BESIDE).items():
            of_orders[name]["sacrebleu"] = scores.scores.mean(0)
    return {
        "shares": curves.shares,
        "chance": curves.chance,
        "curves": of_orders,
        "kept": kept,
        "prunable": prunable,
    }


def _of_encoder(raws: list[Arrays], n_runs: int) -> dict[str, Any]:
    def runs(name: str) -> np.ndarray:
        return np.concatenate([raw[name] for raw in raws])[:n_runs]

    columns = {"names": [str(run) for run in runs("names")], "log_loss": runs("log_loss").mean(0)}
    return columns | ({"accuracy": runs("correct").mean((0, 2))} if "metric" in raws[0] else {})


# --- heads of all kinds ---------------------------------------------------------------------------


def _measure_translator(context: Context, part: str, named: PartName) -> Measured:
    """Measure an order; the headline orders of the main pair on more verses than the others."""
    main = context.subject(named.training)
    # the main pair is the only one for which the paper has all orders and texts
    headline = named.kind is None and context.task == context.profile.translation_task
    runs = orders_of(context, named.order, main, named.kind)
    measured = along(context, runs, part, main.headline if headline else main.tested())
    if named.order == IMPORTANCE:
        plain = main.importance(context.journal, normalize=None)
        kinds = plain if named.kind is None else [named.kind]
        measured.raw.update({f"scores {kind}": plain[kind].numpy() for kind in kinds})
    return measured


def _parts(profile: Profile, half: Half, task: str) -> tuple[str, ...]:
    if half == "encoder":
        return ENCODER[profile.orders]
    orders = EVERY[half] if task == profile.translation_task else FEW
    return (*orders, *map(further_training, profile.trainings(task)[1:]))


def _own(profile: Profile, half: Half, part: str) -> Own:
    """An order's own settings; in the encoder half, importance is measured on every training."""
    named = parse_part(part)
    own = _own_of_order(profile, half, part, named)
    if half == "translation":
        return own
    values = dict(own.values)
    if named.order == ONE_BY_ONE:
        values["n_selection"] = profile.n_selection
    elif named.order != "oracle":
        values["n_scoring"] = profile.n_scoring
    if named.training is not None:
        _check_further(profile, named.order, named.training)
    several = named.order == IMPORTANCE and named.training is None
    return dataclasses.replace(
        own, values=values, seeds=tuple(profile.seeds) if several else own.seeds
    )


def _own_of_order(profile: Profile, half: Half, part: str, named: PartName) -> Own:
    values: dict[str, Any] = {"order": part}
    if read := read_order(half, named.order):
        values["criterion"] = read.criterion.version
    if named.order == RANDOM:
        values["draws"] = n_random(half, profile)
    seeds = None if named.training is None else (named.training,)
    return Own(values, seeds, needs=(one_head,) if named.order == "oracle" else ())


def _check_further(profile: Profile, order: str, training: int) -> None:
    """Raises ValueError where the order cannot be measured on a further training."""
    if training not in profile.further_seeds:
        raise ValueError(
            f"training {training} is not one of the further trainings of {profile.task} with "
            f"{profile.model} ({profile.further_seeds or 'there are none'}). Give seed={training} "
            f"(--seed {training}) instead of a part's name for a result of your own"
        )
    if len(profile.seeds) > 1:
        raise ValueError(
            f"training {training} cannot be a part of its own where importance is measured on "
            f"several fine-tunings, {profile.seeds}. Give a single one (seeds=[{profile.seed}])"
        )
    if order == "oracle":
        raise ValueError(
            "the one-by-one order of the test set comes from one_head, which is measured on the "
            f"first training only. Ask for {ONE_BY_ONE!r} on training {training}"
        )


@measurement(
    "pruning_curve",
    version=3,
    parameters={
        "encoder": ["n_examples", "steps"],
        "translation": ["n_verses", "n_headline", "steps"],
    },
    statistics=STATISTICS,
    halves=HALVES,
    parts=_parts,
    own=_own,
)
def pruning_curve(context: Context, part: str) -> Measured:
    """Outcomes along every run of an order, and the scores that it follows."""
    named = parse_part(part)
    if context.half == "translation":
        return _measure_translator(context, part, named)
    if named.training is not None:
        alone = dataclasses.replace(context.profile, seeds=[named.training])
        context = dataclasses.replace(context, profile=alone)
    main = context.subject()
    if ONE_BY_ONE in (named.order, *ENCODER[context.profile.orders]):
        main.check_apart()  # before hours are spent on the other orders
    measured = along(context, orders_of(context, named.order, main), part)
    if named.order == IMPORTANCE:
        measured.raw["scores"] = main.importance(context.journal, normalize=None)["self"].numpy()
    if named.order == ONE_BY_ONE:  # what it was chosen by
        measured.raw.update(prefixed("train_", training_sweep(context, main)))
    return measured


@pruning_curve.summary
def _(half: Half, outcomes: Outcomes, statistics: Constants) -> dict[str, Any]:
    """The values of :func:`curve_values`, and areas of importance minus each other order's.

    Each difference is over the other order's trainings: all (``joined``), or only the first.
    """
    joined = {order for order, parts in parts_of_orders(outcomes).items() if len(parts) > 1}
    curves = read_curves(outcomes, statistics)
    values = curve_values(outcomes, curves, statistics)
    main = MAIN if MAIN in curves.runs else IMPORTANCE
    if IMPORTANCE not in curves.runs:  # another order was asked for by itself
        return values
    for name, up_to in (("area_differences", 1.0), ("early_area_differences", statistics.early)):
        values[name] = {
            other: curves.difference(
                IMPORTANCE if other in joined else main,
                other,
                lambda scores, end=up_to: curves.area(scores, end),
            )
            for other in curves.runs
            if other not in (IMPORTANCE, MAIN)
        }
    if half == "translation" and IMPORTANCE in outcomes:
        values["scores"] = {kind: outcomes[IMPORTANCE][f"scores {kind}"] for kind in KINDS}
    return values


# --- heads of one kind ----------------------------------------------------------------------------


def _kind_parts(profile: Profile, task: str) -> tuple[str, ...]:
    orders = (*FEW, *map(further_training, profile.trainings(task)[1:]))
    return tuple(f"{kind} {order}" for kind in KINDS for order in orders)


def _own_of_kind(profile: Profile, half: Half, part: str) -> Own:
    named = parse_part(part, "kind")
    if named.kind is None:
        raise ValueError(f"{part!r} has no kind of attention. Begin with {', '.join(KINDS)}")
    return _own_of_order(profile, half, part, named)


@measurement(
    "pruning_by_kind",
    version=3,
    parameters=["n_verses", "steps"],
    # compared by the area up to a share of a kind's heads, and shown at some shares
    statistics=Constants(**vars(STATISTICS), up_to=C4_UP_TO, shown=C4_SHOWN),
    halves=("translation",),
    parts=_kind_parts,
    own=_own_of_kind,
)
def pruning_by_kind(context: Context, part: str) -> Measured:
    """Outcomes along every run of an order of the heads of one kind."""
    return _measure_translator(context, part, parse_part(part, "kind"))


@pruning_by_kind.summary
def _(outcomes: Outcomes, statistics: Constants) -> dict[str, Any]:
    """The values of :func:`curve_values`, and enc-dec minus each other kind by importance.

    ``areas`` are of the share of BLEU kept, ``differences_along`` of BLEU at every step;
    ``shown`` are the shares removed that pages show.
    """
    curves = read_curves(outcomes, statistics)
    values = curve_values(outcomes, curves, statistics)
    if not all(f"{kind} {IMPORTANCE}" in outcomes for kind in KINDS):
        return values  # one was asked for by itself

    def minus(other: str, statistic: Callable[[np.ndarray], np.ndarray]) -> Difference:
        return curves.difference(f"enc-dec {IMPORTANCE}", f"{other} {IMPORTANCE}", statistic)

    others = ("enc-enc", "dec-dec")
    return {
        **values,
        "scores": {kind: outcomes[f"{kind} {IMPORTANCE}"][f"scores {kind}"] for kind in KINDS},
        "areas": {
            other: minus(other, lambda bleu: curves.area(curves.kept(bleu), statistics.up_to))
            for other in others
        },
        "shown": list(statistics.shown),
        "differences_along": {
            f"enc-dec minus {other}": [
                minus(other, lambda curve, step=step: curve[..., step])
                for step in range(len(curves.shares))
            ]
            for other in others
        },
    }
