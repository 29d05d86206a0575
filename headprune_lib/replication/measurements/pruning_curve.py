"""Heads removed together in one order or another (section 4.2, appendix B: Figures 3 and 6)."""

from __future__ import annotations

import dataclasses
from typing import Any

from headprune_lib.discovery import KINDS
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.measurements.curves import (
    MAIN,
    Statistics,
    Values,
    curve_values,
    join_trainings,
    parts_of_orders,
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
from headprune_lib.replication.measurements.orders import (
    ENCODER,
    EVERY,
    FEW,
    IMPORTANCE,
    ONE_BY_ONE,
    further_training,
    orders_of,
    own_of_order,
    training_in,
    training_sweep,
)
from headprune_lib.replication.measurements.removal import along
from headprune_lib.replication.measurements.single_heads import one_head
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import Measured, Outcomes
from headprune_lib.replication.translation.subject import TranslationSubject


def _measure(context: Context, part: str) -> Measured:
    order, seed = training_in(part)
    if context.half == "encoder":
        return _measure_encoder(context, part)
    main = TranslationSubject.of_listed(context.profile, context.task, seed)
    pairs = main.headline if _is_main(context.profile, context.task) else main.pairs("test")
    found = along(context, orders_of(context, order, main), part, pairs)
    if order == IMPORTANCE:
        plain = main.importance(context.journal, normalize=None)
        found.raw.update({f"scores {kind}": values.numpy() for kind, values in plain.items()})
    return found


def _measure_encoder(context: Context, part: str) -> Measured:
    order, training = training_in(part)
    if training is not None:
        alone = dataclasses.replace(context.profile, seeds=[training])
        context = dataclasses.replace(context, profile=alone)
    main = EncoderSubject.of(context.profile)
    if ONE_BY_ONE in (order, *ENCODER[context.profile.orders]):
        main.check_apart()  # before hours are spent on the other orders
    found = along(context, orders_of(context, order, main), part)
    if order == IMPORTANCE:
        plain = main.importance(context.journal, normalize=None)
        found.raw["scores"] = plain["self"].numpy()
    if order == ONE_BY_ONE:  # what it was chosen by
        chosen_by = training_sweep(context, main)
        found.raw.update({f"train_{name}": values for name, values in chosen_by.items()})
    return found


def _summarise(half: Half, outcomes: Outcomes, _runs: Runs, statistics: Statistics) -> Values:
    joined = {order for order, parts in parts_of_orders(outcomes).items() if len(parts) > 1}
    if half == "encoder":
        outcomes = join_trainings(outcomes)
    curves = read_curves(half, outcomes, statistics)
    values = curve_values(half, outcomes, curves, statistics)
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


def _parameters(profile: Profile, half: Half) -> dict[str, Any]:
    if half == "encoder":
        return {"n_examples": profile.n_examples, "steps": profile.steps}
    return {"n_verses": profile.n_verses, "n_headline": profile.n_headline, "steps": profile.steps}


def _is_main(profile: Profile, task: str) -> bool:
    """The paper shows all orders, on all test text, for one of its two language pairs."""
    return task == profile.translation_task


def _parts(profile: Profile, half: Half, task: str) -> tuple[str, ...]:
    if half == "encoder":
        return ENCODER[profile.orders]
    further = tuple(further_training(seed) for seed in profile.trainings(task)[1:])
    return (*(EVERY[half] if _is_main(profile, task) else FEW), *further)


def _own(profile: Profile, half: Half, part: str) -> Own:
    """What an order depends on; of the encoder half, importance is measured after every training."""
    order, training = training_in(part)
    values: dict[str, Any] = {"order": part, **own_of_order(half, order)}
    needs = (one_head,) if order == "oracle" else ()
    if order == "random":
        values["draws"] = profile.random_orders if half == "encoder" else profile.translation_orders
    if half == "translation":
        return Own(values, None if training is None else (training,), needs)
    if order == ONE_BY_ONE:
        values["n_selection"] = profile.n_selection
    elif order != "oracle":
        values["n_scoring"] = profile.n_scoring
    if training is not None:
        return Own(values, (_further(profile, order, training),), needs)
    return Own(values, tuple(profile.seeds) if order == IMPORTANCE else None, needs)


def _further(profile: Profile, order: str, training: int) -> int:
    """The seed of a further training, if the order can be measured on it."""
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
    return training


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
