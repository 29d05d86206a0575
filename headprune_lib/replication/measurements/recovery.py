"""Does the order of removal still matter once a model is trained again? Not in the paper.

A part is an order, a share of the heads and a way of training: ``"random 40% all weights"``. The
uncut model, order ``"uncut"``, is trained in the same ways: what it gains is not recovery.
"""

from __future__ import annotations

import copy
import re
import time
from typing import Any, cast

import numpy as np
from torch import nn

from headprune_lib.masking import HeadTensors, ones_mask
from headprune_lib.pruning import prune_heads
from headprune_lib.replication.engine import run_units
from headprune_lib.replication.measurements.compared import n_cut
from headprune_lib.replication.measurements.measurement import (
    Context,
    Half,
    Measurement,
    Own,
    Runs,
)
from headprune_lib.replication.measurements.recovered import NO_ORDER, Statistics, Values, values_of
from headprune_lib.replication.measurements.retrainable import Retrainable, retrainable
from headprune_lib.replication.measurements.which_first import WHICH_FIRST
from headprune_lib.replication.metrics import millinats
from headprune_lib.replication.models import encoders as of_encoders
from headprune_lib.replication.models import translators as of_translators
from headprune_lib.replication.models.encoders import WAYS, Way
from headprune_lib.replication.order_names import mask_key, read_name
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import Arrays, Measured, Outcomes
from headprune_lib.replication.store.heads import heads_array, heads_in
from headprune_lib.selection import Head, order_mask

_PART = re.compile(rf"(?P<order>.+) (?P<share>\d+)% (?P<way>{'|'.join(WAYS)})")


def name_of(order: str, share: float, way: Way) -> str:
    """What a part is called.

    >>> name_of("random", 0.4, "LoRA")
    'random 40% LoRA'
    """
    return f"{order} {share:.0%} {way}"


def read_part(name: str) -> tuple[str, float, Way]:
    """The order, share and way of training in a part's name.

    >>> read_part("importance rescored 40% all weights")
    ('importance rescored', 0.4, 'all weights')

    Raises:
        ValueError: no such name.
    """
    if not (found := _PART.fullmatch(name)) or int(found["share"]) > 100:
        raise ValueError(
            f"{name!r} is no part of recovery: give an order, a share and a way of training, as "
            f"{name_of('importance', 0.4, WAYS[0])!r} or {name_of('random', 0.2, WAYS[1])!r}"
        )
    return found["order"], int(found["share"]) / 100, cast(Way, found["way"])


def _measure(context: Context, part: str) -> Measured:
    order, share, way = read_part(part)
    subject, units, keys = retrainable(context), {}, []
    cuts = [heads[: n_cut(len(heads), share)] for heads in _orders(context, order)]
    for cut in cuts:
        mask = order_mask(subject.model, cut, len(cut))
        keys.append(f"{subject.key} {mask_key(mask)} {way}")
        # two draws may cut the same heads, and are trained once
        units[keys[-1]] = lambda mask=mask: _trained_without(subject, mask, way)
    done = run_units(units, context.journal, part, here=True)
    found = [done[key] for key in keys]
    raw = {name: np.stack([one[name] for one in found]) for name in found[0]}
    raw |= {f"{name}_uncut": values for name, values in subject.answers(subject.model).items()}
    raw |= {name: millinats(values) for name, values in raw.items() if name.startswith("loss_")}
    raw["heads"] = np.stack([_heads(cut, subject.model) for cut in cuts])
    return subject.measured(raw)


def _orders(context: Context, order: str) -> list[list[Head]]:
    """The heads in every run of an order, as ``which_first`` followed it."""
    if order == NO_ORDER:
        return [[]]
    followed = context.get(WHICH_FIRST.name, [order]).parts[order].raw["order"]
    return [heads_in(one) for one in followed[: context.profile.recovery.random_orders]]


def _heads(cut: list[Head], model: nn.Module) -> np.ndarray:
    """As :func:`heads_array`, with its columns where there are no heads too."""
    some = [(kind, 0, 0) for kind in ones_mask(model)]
    return heads_array(cut).reshape(len(cut), heads_array(some).shape[1])


def _trained_without(subject: Retrainable, mask: HeadTensors, way: Way) -> Arrays:
    """Answers without the heads that a mask cuts, before and after training again."""
    model = prune_heads(copy.deepcopy(subject.model), mask)
    sizes = [sum(p.numel() for p in one.parameters()) for one in (subject.model, model)]
    before = subject.answers(model)
    started = time.perf_counter()
    model = subject.retrained(model, way, mask_key(mask))
    seconds = time.perf_counter() - started
    after = subject.answers(model)
    return {
        **{f"{name}_before": values for name, values in before.items()},
        **{f"{name}_after": values for name, values in after.items()},
        "parameters": np.array(sizes),
        "seconds": np.array(seconds),
    }


# --- what it is -----------------------------------------------------------------------------------


def _summarise(_half: Half, outcomes: Outcomes, _runs: Runs, statistics: Statistics) -> Values:
    return values_of({read_part(part): raw for part, raw in outcomes.items()}, statistics)


def _parameters(profile: Profile, half: Half) -> dict[str, Any]:
    if half == "encoder":
        return {"n_examples": profile.n_examples}
    return {"n_headline": profile.n_headline}


def _parts(profile: Profile, half: Half, _task: str) -> tuple[str, ...]:
    recovery = profile.recovery
    ways = recovery.ways if half == "encoder" else WAYS[:1]
    wanted = [(NO_ORDER, 0.0)]
    wanted += [
        (order, share) for share in recovery.shares for order in (*recovery.orders, "random")
    ]
    return tuple(name_of(order, share, way) for way in ways for order, share in wanted)


def _own(profile: Profile, half: Half, part: str) -> Own:
    order, _, way = read_part(part)
    encoder = half == "encoder"
    trained = of_encoders.recipe_of(profile, way) if encoder else of_translators.recipe_of(profile)
    values: dict[str, Any] = {"part": part, "trained": trained}
    if order == "random":
        values["draws"] = profile.recovery.random_orders
    elif order != NO_ORDER:
        values |= {"n_scoring": profile.n_scoring} if encoder else {}
        values["criterion"] = read_name(order).criterion.version
    return Own(values, needs=() if order == NO_ORDER else (WHICH_FIRST,))


MEASUREMENTS = (
    Measurement(
        "recovery",
        1,
        {"encoder": Statistics(), "translation": Statistics()},
        _parameters,
        _measure,
        _summarise,
        ("encoder", "translation"),
        parts=_parts,
        own=_own,
    ),
)
