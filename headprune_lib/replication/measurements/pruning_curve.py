"""Heads removed together in one order or another (section 4.2, appendix B: Figures 3 and 6)."""

from __future__ import annotations

from typing import Any

from headprune_lib.heads import KINDS
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.measurements.curves import (
    MAIN,
    Statistics,
    Values,
    along,
    curve_values,
    read_curves,
)
from headprune_lib.replication.measurements.measurement import (
    HALVES,
    Context,
    Half,
    Measurement,
    Own,
    Runs,
)
from headprune_lib.replication.measurements.one_head import ONE_HEAD
from headprune_lib.replication.measurements.orders import (
    EVERY,
    FEW,
    IMPORTANCE,
    orders_of,
    own_of_order,
)
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import Measured, Outcomes
from headprune_lib.replication.translation.subject import TranslationSubject


def _measure(context: Context, part: str) -> Measured:
    if context.half == "encoder":
        main, pairs = EncoderSubject.of(context.profile), None
        if context.profile.orders == "every":
            main.check_apart()  # before hours are spent on the other orders
    else:
        main = TranslationSubject.of(context.profile, context.task)
        pairs = main.headline if _is_main(context.profile, context.task) else main.pairs("test")
    found = along(context, orders_of(context, part, main), part, pairs)
    if part == IMPORTANCE:
        plain = main.importance(context.journal, normalize=None)
        found.raw.update(
            {"scores": plain["self"].numpy()}
            if context.half == "encoder"
            else {f"scores {kind}": values.numpy() for kind, values in plain.items()}
        )
    return found


def _summarise(half: Half, outcomes: Outcomes, _runs: Runs, statistics: Statistics) -> Values:
    curves = read_curves(half, outcomes, statistics)
    values = curve_values(half, outcomes, curves, statistics)
    main = MAIN if MAIN in curves.runs else IMPORTANCE
    if IMPORTANCE not in curves.runs:  # another order was asked for by itself
        return values
    values["area_differences"] = {
        other: curves.difference(main, other, curves.area)
        for other in curves.runs
        if other not in (IMPORTANCE, MAIN)
    }
    if half == "translation":
        values["scores"] = {kind: outcomes[IMPORTANCE][f"scores {kind}"] for kind in KINDS}
    return values


def _parameters(profile: Profile, half: Half) -> dict[str, Any]:
    if half == "encoder":
        return {"n_examples": profile.n_examples, "steps": profile.steps}
    return {"n_verses": profile.n_verses, "n_headline": profile.n_headline, "steps": profile.steps}


def _is_main(profile: Profile, task: str) -> bool:
    """The paper shows all orders, on all test text, for one of its two language pairs."""
    return task == profile.translation_task


def _parts(profile: Profile, half: Half, task: str) -> tuple[str, ...]:
    every = profile.orders == "every" if half == "encoder" else _is_main(profile, task)
    return EVERY[half] if every else FEW


def _own(profile: Profile, half: Half, part: str) -> Own:
    """What an order depends on; of the encoder half, importance is measured after every training."""
    values: dict[str, Any] = {"order": part, **own_of_order(half, part)}
    needs = (ONE_HEAD,) if part == "oracle" else ()
    if part == "random":
        values["draws"] = profile.random_orders if half == "encoder" else profile.translation_orders
    if half == "translation":
        return Own(values, needs=needs)
    if part == "oracle leak-free":
        values["n_selection"] = profile.n_selection
    elif part != "oracle":
        values["n_scoring"] = profile.n_scoring
    return Own(values, tuple(profile.seeds) if part == IMPORTANCE else None, needs)


MEASUREMENTS = (
    Measurement(
        "pruning_curve",
        3,
        {half: Statistics() for half in HALVES},
        _parameters,
        _measure,
        _summarise,
        HALVES,
        _parts,
        _own,
    ),
)
