"""Heads of a language model removed together, in one order or another (section 4.2, by perplexity).

Beyond the paper, which has no decoder-only model. Heads that share key and value heads can be
removed from the weights only in whole groups, or equally many of each group: two orders do so, the
others cut single heads by masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np

from headprune_lib.masking import Head, head_mask, ones_mask
from headprune_lib.replication.bounds import C8_UP_TO
from headprune_lib.replication.measurements.measurement import (
    Context,
    Half,
    Measurement,
    Own,
    Runs,
)
from headprune_lib.replication.measurements.orders import IMPORTANCE, random_order
from headprune_lib.replication.measurements.perplexity import (
    Along,
    Statistics,
    along,
    drawn_losses,
    stored_losses,
)
from headprune_lib.replication.measurements.records import Difference, difference_record
from headprune_lib.replication.metrics import MILLINAT
from headprune_lib.replication.order_names import NamedOrder, read_name
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import LanguageSubject, whole_thousandths
from headprune_lib.replication.stats import area_under_curve
from headprune_lib.replication.store import Journal, Measured, Outcomes
from headprune_lib.replication.store.heads import heads_array
from headprune_lib.selection import rank_heads, removal_units

PLAIN = "importance unnormalised"
PER_GROUP, WHOLE_GROUPS = f"{PLAIN} per group", f"{PLAIN} whole groups"
RANDOM = "random"
ORDERS = (
    *(IMPORTANCE, PLAIN, "importance reversed", "entropy", RANDOM),
    *(PER_GROUP, WHOLE_GROUPS),
)


class Values(TypedDict, total=False):
    """``differences`` of the mean loss a token over 0–50% removed, order minus the paper's."""

    shares: np.ndarray
    frequency_loss: float
    tokens: int
    curves: dict[str, Along]
    differences: dict[str, Difference]


def steps_of(subject: LanguageSubject, journal: Journal, name: str) -> list[list[Head]]:
    """What goes together in an order, the first to go first: a head, or heads of groups.

    Raises:
        ValueError: no criterion of this name.
    """
    if name in (PER_GROUP, WHOLE_GROUPS):
        scores = subject.scores(journal, read_name(PLAIN))
        return removal_units(subject.model, scores, per_group=name == PER_GROUP)
    named = _scored_once(name)
    order = rank_heads(subject.scores(journal, named))
    return [[head] for head in (order[::-1] if named.reverse else order)]


def _scored_once(name: str) -> NamedOrder:
    named = read_name(name, ORDERS)
    if named.rescored:
        raise ValueError(f"{name}: orders of language models are scored once")
    return named


def first_heads(steps: Sequence[list[Head]], share: float) -> list[Head]:
    """The heads of the first steps that are a share of all of them, or just more.

    >>> first_heads([[("self", 0, 0)], [("self", 1, 0), ("self", 1, 1)]], 0.5)
    [('self', 0, 0), ('self', 1, 0), ('self', 1, 1)]
    """
    wanted, gone = share * sum(map(len, steps)) - 1e-9, []
    for step in steps:
        if len(gone) >= wanted:
            break
        gone += step
    return gone


def _measure(context: Context, part: str) -> Measured:
    settings = context.profile.language
    subject = LanguageSubject.of(context.profile, context.task)
    if part == RANDOM:
        heads = [head for (head,) in steps_of(subject, context.journal, IMPORTANCE)]
        runs = {
            str(draw): [[head] for head in random_order(heads, draw)]
            for draw in range(settings.random_orders)
        }
    else:
        runs = {"": steps_of(subject, context.journal, part)}
    masks, names, gone = {"no head cut": ones_mask(subject.model)}, [], []
    for name, steps in runs.items():
        for share in settings.shares:
            cut = first_heads(steps, share)
            names.append(f"{part} {name}, {len(cut)} gone")  # two shares may be one number of heads
            masks[names[-1]] = head_mask(subject.model, cut)
            gone.append(len(cut))
    found = subject.under(masks, context.journal, f"{context.task}, {part}")
    by_name = dict(zip(masks, found, strict=True))
    uncut, cuts = found[0], np.stack([by_name[name] for name in names])
    shape = len(runs), len(settings.shares), -1
    orders = [[head for step in steps for head in step] for steps in runs.values()]
    return subject.measured(
        {
            "names": np.array(list(runs)),
            "order": np.stack([heads_array(order) for order in orders]),
            "gone": np.array(gone, np.int16).reshape(shape)[..., 0],
            "shares": np.array([0.0, *settings.shares]),
            "loss_uncut": whole_thousandths(uncut),
            "loss_change": whole_thousandths(cuts.reshape(shape) - uncut),
            "tokens": subject.tokens.astype(np.int16),
            "frequency_loss": whole_thousandths(subject.frequency_loss),
        }
    )


def _summarise(_half: Half, outcomes: Outcomes, _runs: Runs, statistics: Statistics) -> Values:
    first = next(iter(outcomes.values()))
    tokens, shares = first["tokens"].astype(int), first["shares"]
    losses = {name: stored_losses(raw) for name, raw in outcomes.items()}
    drawn = drawn_losses(losses, tokens, statistics)
    frequency = float(first["frequency_loss"].sum() / MILLINAT / tokens.sum())
    curves = {name: along(loss, tokens, drawn[name], frequency) for name, loss in losses.items()}
    found: Values = {
        "shares": shares,
        "frequency_loss": frequency,
        "tokens": int(tokens.sum()),
        "curves": curves,
    }
    if IMPORTANCE in losses:
        inside = shares <= C8_UP_TO + 1e-9

        def mean(loss: np.ndarray) -> np.ndarray:
            return area_under_curve(shares[inside], loss[..., inside])

        found["differences"] = {
            name: difference_record(
                mean(curves[name]["mean"]) - mean(curves[IMPORTANCE]["mean"]),
                mean(drawn[name]) - mean(drawn[IMPORTANCE]),
            )
            for name in losses
            if name != IMPORTANCE
        }
    return found


def _parameters(profile: Profile, _half: Half) -> dict[str, Any]:
    return {"shares": profile.language.shares}


def _parts(_profile: Profile, _half: Half, _task: str) -> tuple[str, ...]:
    return ORDERS


def _own(profile: Profile, _half: Half, part: str) -> Own:
    settings = profile.language
    values: dict[str, Any] = {"order": part, "scoring_tokens": settings.scoring_tokens}
    if part == RANDOM:
        return Own({**values, "draws": settings.random_orders})
    read = _scored_once(PLAIN if part in (PER_GROUP, WHOLE_GROUPS) else part)
    return Own({**values, "criterion": read.criterion.version})


MEASUREMENTS = (
    Measurement(
        "language_curve",
        1,
        {"language": Statistics()},
        _parameters,
        _measure,
        _summarise,
        ("language",),
        _parts,
        _own,
    ),
)
