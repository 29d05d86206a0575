"""Heads removed together in one order or another (section 4.2, appendix B: Figures 3 and 6).

And heads of one kind of attention alone (section 5: Figure 4).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from headprune_lib.replication.bounds import C4_SHOWN, C4_UP_TO
from headprune_lib.replication.lazy import setups
from headprune_lib.replication.measurements.curves import (
    MAIN,
    Statistics,
    curve_values,
    parts_of_orders,
    read_curves,
)
from headprune_lib.replication.measurements.measurement import (
    HALVES,
    Context,
    Half,
    Own,
    measurement,
)
from headprune_lib.replication.measurements.orders import (
    ENCODER,
    EVERY,
    FEW,
    ONE_BY_ONE,
    n_random,
    orders_of,
    own_of_order,
    training_sweep,
)
from headprune_lib.replication.measurements.records import Difference
from headprune_lib.replication.measurements.removal import along
from headprune_lib.replication.measurements.single_heads import one_head
from headprune_lib.replication.order_names import (
    IMPORTANCE,
    RANDOM,
    PartName,
    further_training,
    parse_part,
)
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import Measured, Outcomes, prefixed
from headprune_lib.replication.store.heads import KINDS

# --- heads of all kinds ---------------------------------------------------------------------------


def _measure_translator(
    context: Context, part: str, named: PartName, headline: bool = False
) -> Measured:
    """On the first test verses, or on those of the ``headline``."""
    main = setups.TranslationSubject.of_listed(context.profile, context.task, named.training)
    runs = orders_of(context, named.order, main, named.kind)
    measured = along(context, runs, part, main.headline if headline else main.tested())
    if named.order == IMPORTANCE:
        plain = main.importance(context.journal, normalize=None)
        kinds = plain if named.kind is None else [named.kind]
        measured.raw.update({f"scores {kind}": plain[kind].numpy() for kind in kinds})
    return measured


def _is_main(profile: Profile, task: str) -> bool:
    """The paper shows all orders, on all test text, for one of its two language pairs."""
    return task == profile.translation_task


def _parts(profile: Profile, half: Half, task: str) -> tuple[str, ...]:
    if half == "encoder":
        return ENCODER[profile.orders]
    return (*(EVERY[half] if _is_main(profile, task) else FEW), *_of_further(profile, task))


def _of_further(profile: Profile, task: str) -> tuple[str, ...]:
    return tuple(further_training(seed) for seed in profile.trainings(task)[1:])


def _own(profile: Profile, half: Half, part: str) -> Own:
    """What an order depends on; of the encoder half, importance is measured after every training."""
    named = parse_part(part)
    order, training = named.order, named.training
    values: dict[str, Any] = {"order": part, **own_of_order(half, order)}
    needs = (one_head,) if order == "oracle" else ()
    if order == RANDOM:
        values["draws"] = n_random(half, profile)
    if half == "translation":
        return Own(values, None if training is None else (training,), needs)
    if order == ONE_BY_ONE:
        values["n_selection"] = profile.n_selection
    elif order != "oracle":
        values["n_scoring"] = profile.n_scoring
    if training is not None:
        _check_further(profile, order, training)
        return Own(values, (training,), needs)
    return Own(values, tuple(profile.seeds) if order == IMPORTANCE else None, needs)


def _check_further(profile: Profile, order: str, training: int) -> None:
    """Raises ValueError where the order cannot be measured on a further training."""
    if training not in profile.further_seeds:
        raise ValueError(
            f"training {training} is not one of the further ones of {profile.task} with "
            f"{profile.model}, {profile.further_seeds or 'of which there are none'}; for a result "
            f"of your own, give seed={training} (--seed {training}) in place of a part's name"
        )
    if len(profile.seeds) > 1:
        raise ValueError(
            f"fine-tunings {profile.seeds} are measured in one part here, where only importance "
            f"has them all; training {training} can be one of its own beside a single other"
        )
    if order == "oracle":
        raise ValueError(
            "the one-by-one order of the test set is that of one_head, which is measured on the "
            f"first training; on training {training}, ask for {ONE_BY_ONE!r}"
        )


# --- heads of one kind ----------------------------------------------------------------------------


@dataclass(frozen=True)
class KindStatistics(Statistics):
    """Kinds are compared by the area up to a share of a kind's heads, and shown at some of them."""

    up_to: float = C4_UP_TO
    shown: tuple[float, ...] = C4_SHOWN


def _kind_parts(profile: Profile, task: str) -> tuple[str, ...]:
    orders = (*FEW, *_of_further(profile, task))
    return tuple(f"{kind} {order}" for kind in KINDS for order in orders)


def _own_of_kind(profile: Profile, half: Half, part: str) -> Own:
    named = parse_part(part, "kind")
    if named.kind is None:
        raise ValueError(f"{part!r} names no kind of attention; begin with {', '.join(KINDS)}")
    draws = {"draws": n_random(half, profile)} if named.order == RANDOM else {}
    values = {"order": part, **draws, **own_of_order(half, named.order)}
    return Own(values, None if named.training is None else (named.training,))


@measurement(
    "pruning_curve",
    version=3,
    parameters={
        "encoder": ["n_examples", "steps"],
        "translation": ["n_verses", "n_headline", "steps"],
    },
    statistics=Statistics(),
    halves=HALVES,
    parts=_parts,
    own=_own,
)
def pruning_curve(context: Context, part: str) -> Measured:
    """Outcomes along every run of an order, and the scores that it follows."""
    named = parse_part(part)
    if context.half == "translation":
        return _measure_translator(context, part, named, _is_main(context.profile, context.task))
    if named.training is not None:
        alone = dataclasses.replace(context.profile, seeds=[named.training])
        context = dataclasses.replace(context, profile=alone)
    main = setups.EncoderSubject.of(context.profile)
    if ONE_BY_ONE in (named.order, *ENCODER[context.profile.orders]):
        main.check_apart()  # before hours are spent on the other orders
    measured = along(context, orders_of(context, named.order, main), part)
    if named.order == IMPORTANCE:
        measured.raw["scores"] = main.importance(context.journal, normalize=None)["self"].numpy()
    if named.order == ONE_BY_ONE:  # what it was chosen by
        measured.raw.update(prefixed("train_", training_sweep(context, main)))
    return measured


@pruning_curve.summary
def _(half: Half, outcomes: Outcomes, statistics: Statistics) -> dict[str, Any]:
    """What :func:`curve_values` says, and areas of importance minus each other order's.

    On the trainings that the other order has: all (``joined``), or the first alone.
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


@measurement(
    "pruning_by_kind",
    version=3,
    parameters=["n_verses", "steps"],
    statistics=KindStatistics(),
    halves=("translation",),
    parts=_kind_parts,
    own=_own_of_kind,
)
def pruning_by_kind(context: Context, part: str) -> Measured:
    """Outcomes along every run of an order of the heads of one kind."""
    return _measure_translator(context, part, parse_part(part, "kind"))


@pruning_by_kind.summary
def _(outcomes: Outcomes, statistics: KindStatistics) -> dict[str, Any]:
    """What :func:`curve_values` says, and enc-dec minus each other kind by importance.

    ``areas`` are of the share of BLEU kept, ``differences_along`` of BLEU at every step;
    ``shown`` are the shares removed that a page shows.
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
