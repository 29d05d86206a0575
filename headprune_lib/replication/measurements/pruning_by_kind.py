"""Heads of one kind of attention removed alone (section 5: Figure 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headprune_lib.heads import KINDS
from headprune_lib.replication.measurements import curves as curves_module
from headprune_lib.replication.measurements.curves import along, curve_values, read_curves
from headprune_lib.replication.measurements.measurement import Context, Half, Measurement, Own, Runs
from headprune_lib.replication.measurements.orders import (
    FEW,
    IMPORTANCE,
    orders_of,
    own_of_order,
)
from headprune_lib.replication.measurements.records import Difference
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.stats.bounds import C4_REMOVED
from headprune_lib.replication.store import Measured, Outcomes
from headprune_lib.replication.translation.subject import TranslationSubject


@dataclass(frozen=True)
class Statistics(curves_module.Statistics):
    """``removed`` is the share of a kind's heads at which the kinds are compared."""

    removed: float = C4_REMOVED


class Values(curves_module.Values, total=False):
    """``differences`` at ``left_at`` and along the curves: BLEU left, enc-dec minus another kind."""

    left_at: float
    differences: dict[str, Difference]
    differences_along: dict[str, list[Difference]]


def _measure(context: Context, part: str) -> Measured:
    kind, _, order = part.partition(" ")
    main = TranslationSubject.of(context.profile, context.task)
    found = along(context, orders_of(context, order, main, kind), part, main.pairs("test"))
    if order == IMPORTANCE:
        plain = main.importance(context.journal, normalize=None)
        found.raw[f"scores {kind}"] = plain[kind].numpy()
    return found


def _summarise(half: Half, outcomes: Outcomes, _runs: Runs, statistics: Statistics) -> Values:
    curves = read_curves(half, outcomes, statistics)
    at = int(np.flatnonzero(np.isclose(curves.shares, statistics.removed))[0])
    differences = {
        f"enc-dec minus {other}": [
            curves.difference(
                f"enc-dec {IMPORTANCE}",
                f"{other} {IMPORTANCE}",
                lambda curve, step=step: curve[..., step],
            )
            for step in range(len(curves.shares))
        ]
        for other in ("enc-enc", "dec-dec")
    }
    return {
        **curve_values(half, outcomes, curves, statistics),
        "scores": {kind: outcomes[f"{kind} {IMPORTANCE}"][f"scores {kind}"] for kind in KINDS},
        "left_at": statistics.removed,
        "differences": {name: found[at] for name, found in differences.items()},
        "differences_along": differences,
    }


def _parameters(profile: Profile, _half: Half) -> dict[str, Any]:
    return {"n_verses": profile.n_verses, "steps": profile.steps}


def _parts(_profile: Profile, _half: Half, _task: str) -> tuple[str, ...]:
    return tuple(f"{kind} {order}" for kind in KINDS for order in FEW)


def _own(profile: Profile, half: Half, part: str) -> Own:
    draws = {"draws": profile.translation_orders} if part.endswith("random") else {}
    return Own({"order": part, **draws, **own_of_order(half, part.partition(" ")[2])})


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
