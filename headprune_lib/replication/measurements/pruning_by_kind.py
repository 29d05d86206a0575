"""Heads of one kind of attention removed alone (section 5: Figure 4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from headprune_lib.discovery import KINDS
from headprune_lib.replication.bounds import C4_SHOWN, C4_UP_TO
from headprune_lib.replication.measurements import curves as curves_module
from headprune_lib.replication.measurements.curves import curve_values, read_curves
from headprune_lib.replication.measurements.measurement import Context, Half, Measurement, Own, Runs
from headprune_lib.replication.measurements.orders import (
    FEW,
    IMPORTANCE,
    further_training,
    orders_of,
    own_of_order,
    training_in,
)
from headprune_lib.replication.measurements.records import Difference
from headprune_lib.replication.measurements.removal import along
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import TranslationSubject
from headprune_lib.replication.store import Measured, Outcomes


@dataclass(frozen=True)
class Statistics(curves_module.Statistics):
    """Kinds are compared by the area up to a share of a kind's heads, and shown at some of them."""

    up_to: float = C4_UP_TO
    shown: tuple[float, ...] = C4_SHOWN


class Values(curves_module.Values, total=False):
    """Enc-dec minus another kind: mean share of BLEU kept, and BLEU left along the curves.

    ``shown`` are the shares removed that a page shows.
    """

    areas: dict[str, Difference]
    shown: list[float]
    differences_along: dict[str, list[Difference]]


def _measure(context: Context, part: str) -> Measured:
    kind, _, order = part.partition(" ")
    order, seed = training_in(order)
    main = TranslationSubject.of_listed(context.profile, context.task, seed)
    found = along(context, orders_of(context, order, main, kind), part, main.pairs("test"))
    if order == IMPORTANCE:
        plain = main.importance(context.journal, normalize=None)
        found.raw[f"scores {kind}"] = plain[kind].numpy()
    return found


def _summarise(half: Half, outcomes: Outcomes, _runs: Runs, statistics: Statistics) -> Values:
    curves = read_curves(half, outcomes, statistics)
    if not all(f"{kind} {IMPORTANCE}" in outcomes for kind in KINDS):
        return {**curve_values(half, outcomes, curves, statistics)}  # one was asked for by itself

    def minus(other: str, statistic: Callable[[np.ndarray], np.ndarray]) -> Difference:
        return curves.difference(f"enc-dec {IMPORTANCE}", f"{other} {IMPORTANCE}", statistic)

    others = ("enc-enc", "dec-dec")
    return {
        **curve_values(half, outcomes, curves, statistics),
        "scores": {kind: outcomes[f"{kind} {IMPORTANCE}"][f"scores {kind}"] for kind in KINDS},
        "areas": {
            other: minus(other, lambda one: curves.area(curves.kept(one), statistics.up_to))
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


def _parameters(profile: Profile, _half: Half) -> dict[str, Any]:
    return {"n_verses": profile.n_verses, "steps": profile.steps}


def _parts(profile: Profile, _half: Half, task: str) -> tuple[str, ...]:
    further = [further_training(seed) for seed in profile.trainings(task)[1:]]
    return tuple(f"{kind} {order}" for kind in KINDS for order in (*FEW, *further))


def _own(profile: Profile, half: Half, part: str) -> Own:
    draws = {"draws": profile.translation_orders} if part.endswith("random") else {}
    kind, _, name = part.partition(" ")
    if kind not in KINDS:
        raise ValueError(f"{part!r} names no kind of attention; begin with {', '.join(KINDS)}")
    order, seed = training_in(name)
    values = {"order": part, **draws, **own_of_order(half, order)}
    return Own(values, None if seed is None else (seed,))


MEASUREMENTS = (
    Measurement(
        "pruning_by_kind",
        3,
        {"translation": Statistics()},
        _parameters,
        _measure,
        _summarise,
        ("translation",),
        _parts,
        _own,
    ),
)
