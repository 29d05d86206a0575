"""What a result of ``which_first`` holds besides outcomes of masks: scores, orders, losses."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import torch

from headprune_lib.discovery import KINDS
from headprune_lib.masking import HeadTensors, ones_mask
from headprune_lib.replication import stats
from headprune_lib.replication.bounds import ORDERS_UP_TO
from headprune_lib.replication.measurements.contrasts import COMBINED, CONTROL
from headprune_lib.replication.measurements.orders import random_order
from headprune_lib.replication.measurements.removal import (
    Subject,
    factors_along,
    losses_under,
    masks_along,
    tuned,
)
from headprune_lib.replication.measurements.which_first import (
    alpha_in,
    combined_order,
    loss_area,
    tested,
)
from headprune_lib.replication.metrics import MILLINAT
from headprune_lib.replication.order_names import parse_part, read_name
from headprune_lib.replication.setups import EncoderSubject
from headprune_lib.replication.store import Arrays, Journal, Part, Result
from headprune_lib.replication.store.heads import heads_in
from headprune_lib.replication.verification.orders import own_parts
from headprune_lib.replication.verification.quantities import (
    NATS,
    Quantity,
    equal,
    same_draws,
    same_scores,
)
from headprune_lib.scoring import normalize_l2
from headprune_lib.selection import rank_heads

_SCORED = ("importance unnormalised", "entropy")
"""Scores that are measured again: the others' orders must follow from what is stored."""
_TEXTS = 16
GATE = 0.02
"""How far a gate that is fitted again may be off."""


def followed(
    result: Result, subject: Subject, journal: Journal, asked: Collection[str]
) -> Iterator[Quantity]:
    """Scores, orders and losses along them, of the orders that were measured on a training."""
    parts = {parse_part(name).curve: part for name, part in own_parts(result, subject).items()}
    for order, part in ((parse_part(name).curve, result.parts[name]) for name in asked):
        if isinstance(subject, EncoderSubject):
            yield equal(f"labels, {order}", part.raw["labels"], tested(subject).labels)
        yield from _orders(parse_part(order, "tuned").order, part, parts, subject, journal)
        if parse_part(order, "tuned").tuned:
            yield _gates(order, part.raw, subject, journal)
        yield from losses_along(order, part.raw, subject, journal)


def _orders(
    order: str, part: Part, parts: dict[str, Part], subject: Subject, journal: Journal
) -> Iterator[Quantity]:
    raw, scores = part.raw, _scores(part.raw)
    if scores:
        heads = rank_heads(scores)[:: -1 if read_name(order).reverse else 1]
        yield equal(f"order of {order}", heads_in(raw["order"][0]), heads)
        yield equal(f"what is said of {order}", raw["said"].tolist(), [""])
    if order in _SCORED:
        found = (  # which other results of the model hold as well
            subject.importance(journal, normalize=None)
            if order == "importance unnormalised"
            else subject.scores(journal, read_name(order))
        )
        for kind, values in scores.items():
            yield same_scores(f"{order}, {kind}", values.numpy(), found[kind].numpy())
    important, wide = (_scores(parts[name].raw) if name in parts else {} for name in _SCORED)
    if order == "importance" and scores and important:
        for kind, values in normalize_l2(important).items():
            yield same_scores(f"{order}, {kind}", scores[kind].numpy(), values.numpy())
    if not (important and wide):
        return
    stored = [heads_in(one) for one in raw["order"]]
    if order == "random":
        normalised = normalize_l2(important)
        heads = rank_heads(normalised)
        drawn = [random_order(heads, 1000 * subject.seed + int(draw)) for draw in raw["said"]]
        yield same_draws(f"order of {order}", stored, drawn, normalised)
        return
    if order == COMBINED:
        drawn = [combined_order(alpha_in(str(raw["said"][0])), important, wide)]
    elif order == CONTROL and COMBINED in parts:
        alpha = alpha_in(str(parts[COMBINED].raw["said"][0]))
        drawn = [combined_order(alpha, important, wide, int(draw)) for draw in raw["said"]]
    else:
        return
    yield equal(f"order of {order}", stored, drawn)


def _scores(raw: Arrays) -> HeadTensors:
    """In the order of kinds that the model has: equal ranks of two kinds go by it."""
    return {
        kind: torch.from_numpy(raw[f"scores {kind}"])
        for kind in ("self", *KINDS)
        if f"scores {kind}" in raw
    }


def _gates(order: str, raw: Arrays, subject: Subject, journal: Journal) -> Quantity:
    """Gates of the first run, fitted again where the most heads are gone that orders are compared at."""
    inside = tuple(raw["shares"][raw["shares"] <= ORDERS_UP_TO + 1e-9])
    heads = heads_in(raw["order"][0])
    (found,) = tuned(subject, masks_along(subject, heads, inside)[-1:], journal)
    stored = factors_along(subject, raw, 0, heads, inside)[-1]
    off = max(float((stored[kind] - values).abs().max()) for kind, values in found.items())
    return Quantity(
        f"gates, {order}, {inside[-1]:.0%} removed", "", f"off by {off:.1e}", f"{GATE}", off <= GATE
    )


def losses_along(order: str, raw: Arrays, subject: Subject, journal: Journal) -> Iterator[Quantity]:
    """Areas of the first texts, and mean losses of all texts with no head and with every head cut."""
    texts, inside = tested(subject), raw["shares"] <= ORDERS_UP_TO + 1e-9
    few, shares = texts.first(_TEXTS), tuple(raw["shares"][inside])
    for run, heads in enumerate(map(heads_in, raw["order"])):
        if run and order == CONTROL:
            break  # one of its draws
        masks = factors_along(subject, raw, run, heads, shares)
        area = loss_area(shares, losses_under(subject, masks, few, journal))
        off = np.abs(area - raw["loss_area"][run, : len(few)])
        most = MILLINAT * NATS + np.abs(area) / 16  # rounded to one part in 32, to either neighbour
        yield Quantity(
            f"loss added, {order}, run {run + 1}, {len(few)} texts",
            f"mean {raw['loss_area'][run, : len(few)].mean():.1f} mnat",
            f"mean {area.mean():.1f} mnat, off by {off.max()}",
            f"{NATS} nats, and its rounding",
            bool((off <= most).all()),
        )
    whole = ones_mask(subject.model)
    nothing = {kind: torch.zeros_like(mask) for kind, mask in whole.items()}
    ends = {0: whole, **({-1: nothing} if raw["shares"][-1] == 1 else {})}
    found = losses_under(subject, list(ends.values()), texts, journal).mean(-1)
    stored = np.array([raw["log_loss"][:, end] for end in ends]).T
    yield Quantity(
        f"mean losses, {order}",
        " and ".join(f"{value:.3f}" for value in stored[0]),
        " and ".join(f"{value:.3f}" for value in found),
        f"{NATS} nats",
        bool((np.abs(stored - found) <= NATS).all()),
    )
    added = raw["log_loss"][:, inside] - raw["log_loss"][:, :1]
    areas = MILLINAT * stats.area_under_curve(shares, added)
    means = raw["loss_area"].mean(-1)
    yield Quantity(
        f"mean losses beside those of texts, {order}",
        f"{areas[0]:.2f} mnat",
        f"{means[0]:.2f} mnat",
        f"{NATS} nats, and its rounding",
        bool(
            (
                np.abs(areas - means) <= MILLINAT * NATS + np.abs(raw["loss_area"]).mean(-1) / 32
            ).all()
        ),
    )
