"""Removing heads of a language model: one at a time, together, and before training again.

Beyond the paper, which has no decoder-only model (its sections 3.2 and 4.2, by perplexity). Heads
that share key and value heads can be removed from the weights only in whole groups, or equally many
from each group: two orders do so, the others cut single heads by masks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from headprune_lib.replication.bounds import C8_UP_TO
from headprune_lib.replication.engine import run_units
from headprune_lib.replication.lazy import language, masking, selection, setups, training, utils
from headprune_lib.replication.measurements.base import Constants, Context, Own, measurement
from headprune_lib.replication.measurements.curves import Curves
from headprune_lib.replication.measurements.estimates import (
    mean_curves,
    of_losses,
    scored,
)
from headprune_lib.replication.measurements.orders import random_order
from headprune_lib.replication.measurements.scores import PLAIN, scored_once
from headprune_lib.replication.metrics import MILLINAT
from headprune_lib.replication.order_names import (
    IMPORTANCE,
    RANDOM,
    mask_key,
    parse_part,
    read_name,
)
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import Arrays, Journal, Measured, Outcomes
from headprune_lib.replication.store.packing import heads_array

PER_GROUP, WHOLE_GROUPS = f"{PLAIN} per group", f"{PLAIN} whole groups"
ORDERS = (
    *(IMPORTANCE, PLAIN, "importance reversed", "entropy", RANDOM),
    *(PER_GROUP, WHOLE_GROUPS),
)

# --- together -------------------------------------------------------------------------------------


def steps_of(
    subject: setups.LanguageSubject, journal: Journal, name: str
) -> list[list[masking.Head]]:
    """The steps of an order, from the first: each a head, or heads of groups, removed together.

    Raises:
        ValueError: no criterion of this name.
    """
    order_asked = parse_part(name, "groups")
    named = scored_once(order_asked.order)
    scores = subject.scores(journal, named)
    if order_asked.groups:
        return selection.removal_units(
            subject.model, scores, per_group=order_asked.groups == "per group"
        )
    return [[head] for head in named.ranked(scores)]


def first_heads(steps: Sequence[list[masking.Head]], share: float) -> list[masking.Head]:
    """The heads of the first steps that make up a share of all heads, or just more.

    >>> first_heads([[("self", 0, 0)], [("self", 1, 0), ("self", 1, 1)]], 0.5)
    [('self', 0, 0), ('self', 1, 0), ('self', 1, 1)]
    """
    wanted, gone = share * sum(map(len, steps)) - 1e-9, []
    for step in steps:
        if len(gone) >= wanted:
            break
        gone += step
    return gone


def _own(profile: Profile, part: str) -> Own:
    settings = profile.language
    values: dict[str, Any] = {"order": part, "scoring_tokens": settings.scoring_tokens}
    if part == RANDOM:
        return Own({**values, "draws": settings.random_orders})
    named = scored_once(parse_part(part, "groups").order)
    return Own({**values, "criterion": named.criterion.version})


# --- before training again ------------------------------------------------------------------------


def share_in(part: str) -> float:
    """The share removed, from a part's name.

    >>> share_in("removed 30%")
    0.3

    Raises:
        ValueError: the name is not that of such a part.
    """
    named = parse_part(part, "share")
    if named.order != "removed" or named.share is None or named.share > 1 or named.way:
        raise ValueError(f"no part is called {part!r}. Give a name such as 'removed 30%'")
    return named.share


def _tuning(profile: Profile) -> dict[str, Any]:
    how = {"seed": language.SEED, "adapted": language.PROJECTIONS}
    return {"tuning": {**asdict(profile.language.tuning), **how}}


def _own_of_recovery(profile: Profile, part: str) -> Own:
    share_in(part)  # refuses any other name
    scored_on = {"scoring_tokens": profile.language.scoring_tokens}
    return Own({"part": part, **scored_on, "criterion": read_name(PLAIN).criterion.version})


@measurement(
    "language_heads",
    version=1,
    parameters=lambda profile: {"head_tokens": profile.language.head_tokens},
    statistics=Constants(resamples=5_000, seed=0),
    halves=("language",),
)
def language_heads(context: Context) -> Measured:
    """Losses of passages with each head cut in turn."""
    subject = context.subject()
    swept = subject.without_each(context.journal)
    return subject.measured(
        {
            "heads": swept["heads"],
            "loss_uncut": setups.whole_thousandths(swept["loss_uncut"]),
            "loss_change": setups.whole_thousandths(swept["loss"] - swept["loss_uncut"]),
            "tokens": setups.predicted(subject.swept).astype(np.int16),
        }
    )


@language_heads.summary
def _(raw: Arrays, statistics: Constants) -> dict[str, Any]:
    """The loss per token that cutting each head adds, in nats, and the uncut model's ``loss``."""
    tokens = int(raw["tokens"].sum())
    change = of_losses(raw["loss_change"][None] / MILLINAT, raw["tokens"])
    added = mean_curves({"": change}, statistics)[""]
    return {
        "heads": [
            {"layer": layer, "head": head, "added": value, "interval": interval}
            for (layer, head), value, interval in zip(
                raw["heads"].tolist(), added.value, added.interval, strict=True
            )
        ],
        "loss": raw["loss_uncut"].sum() / MILLINAT / tokens,
        "tokens": tokens,
    }


@measurement(
    "language_curve",
    version=1,
    parameters=lambda profile: {"shares": profile.language.shares},
    statistics=Constants(resamples=5_000, seed=0),
    halves=("language",),
    parts=lambda: ORDERS,
    own=_own,
)
def language_curve(context: Context, part: str) -> Measured:
    """Losses of passages along every run of an order."""
    settings = context.profile.language
    subject = context.subject()
    if part == RANDOM:
        heads = [head for (head,) in steps_of(subject, context.journal, IMPORTANCE)]
        runs = {
            str(draw): [[head] for head in random_order(heads, draw)]
            for draw in range(settings.random_orders)
        }
    else:
        runs = {"": steps_of(subject, context.journal, part)}
    masks, names, gone = {"no head cut": masking.ones_mask(subject.model)}, [], []
    for name, steps in runs.items():
        for share in settings.shares:
            cut = first_heads(steps, share)
            names.append(f"{part} {name}, {len(cut)} gone")  # two shares may be equally many heads
            masks[names[-1]] = masking.head_mask(subject.model, cut)
            gone.append(len(cut))
    title = f"{context.task}, {part}"
    losses = subject.outcomes(masks, subject.test, context.journal, title)["loss"]
    by_name = dict(zip(masks, losses, strict=True))
    uncut, cuts = losses[0], np.stack([by_name[name] for name in names])
    shape = len(runs), len(settings.shares), -1
    orders = [[head for step in steps for head in step] for steps in runs.values()]
    return subject.measured(
        {
            "names": np.array(list(runs)),
            "order": np.stack([heads_array(order) for order in orders]),
            "gone": np.array(gone, np.int16).reshape(shape)[..., 0],
            "shares": np.array([0.0, *settings.shares]),
            "loss_uncut": setups.whole_thousandths(uncut),
            "loss_change": setups.whole_thousandths(cuts.reshape(shape) - uncut),
            "tokens": subject.tokens.astype(np.int16),
            "frequency_loss": setups.whole_thousandths(subject.frequency_loss),
        }
    )


@language_curve.summary
def _(outcomes: Outcomes, statistics: Constants) -> dict[str, Any]:
    """Loss curves in nats per token, and ``differences`` of the other orders from the paper's.

    Returns:
        ``shares``, ``frequency_loss`` (by token frequency alone), ``tokens``, ``curves`` (``mean``
        and ``runs`` of the loss, ``perplexity``, the exponential of the mean, with its
        ``interval``, and the share ``kept`` of the uncut model's gain over token frequency) and
        ``differences`` of the mean loss over 0-50% removed.
    """
    first = next(iter(outcomes.values()))
    tokens, shares = int(first["tokens"].sum()), first["shares"]
    losses = {name: scored(raw) for name, raw in outcomes.items()}
    frequency = float(first["frequency_loss"].sum() / MILLINAT / tokens)
    runs = {name: loss.scores for name, loss in losses.items()}
    curves = Curves(shares, -frequency, runs, mean_curves(losses, statistics))
    kept = {name: mean.map(lambda loss: curves.kept(-loss)) for name, mean in curves.means.items()}
    values: dict[str, Any] = {
        "shares": shares,
        "frequency_loss": frequency,
        "tokens": tokens,
        "curves": {
            name: {
                "mean": mean.value,
                "runs": runs[name],
                "perplexity": np.exp(mean.value),
                "interval": np.exp(mean.interval),
                "kept": kept[name].value,
                "kept_interval": kept[name].interval,
            }
            for name, mean in curves.means.items()
        },
    }
    if IMPORTANCE in losses:
        values["differences"] = {
            name: curves.difference(name, IMPORTANCE, lambda loss: curves.area(loss, C8_UP_TO))
            for name in losses
            if name != IMPORTANCE
        }
    return values


@measurement(
    "language_recovery",
    version=1,
    parameters=_tuning,
    statistics=Constants(resamples=5_000, seed=0),
    halves=("language",),
    parts=lambda profile: tuple(f"removed {share:.0%}" for share in profile.language.recovered),
    own=_own_of_recovery,
)
def language_recovery(context: Context, part: str) -> Measured:
    """Losses of passages without some heads, before and after training again."""
    subject = context.subject()
    cut = first_heads(steps_of(subject, context.journal, PER_GROUP), share_in(part))
    mask, gone = masking.head_mask(subject.model, cut), len(cut)

    def before() -> Arrays:
        model = subject.pruned(mask)
        sizes = [utils.n_parameters(sized) for sized in (subject.model, model)]
        loss = setups.whole_thousandths(subject.losses(model))
        return {"loss_pruned": loss, "parameters": np.array(sizes)}

    def after() -> Arrays:
        name = f"{context.profile.language_model}-{context.task}-{gone}-gone"
        folder = training.checkpoint_folder(name, [_tuning(context.profile), mask_key(mask)])
        losses = subject.losses(language.tuned(subject, subject.pruned(mask), folder))
        return {"loss_tuned": setups.whole_thousandths(losses)}

    def unit(name: str, measure: Callable[[], Arrays]) -> Arrays:
        key = f"{subject.key} {gone} gone {name}"
        return run_units({key: measure}, context.journal, part, here=True)[key]

    return subject.measured(
        {
            "removed": np.array(gone),
            **unit("before", before),
            **context.settled(["loss_tuned"], lambda: unit("after", after), costly=True),
            "tokens": subject.tokens.astype(np.int16),
        }
    )


@language_recovery.summary
def _(outcomes: Outcomes, statistics: Constants) -> dict[str, Any]:
    """Perplexity after removing heads, and after training again: a row per part, by share removed.

    The uncut model is trained the same way: its gain comes from seeing this kind of text.
    ``share`` of the heads was requested, ``removed`` is their number; ``parameters`` are those of
    the uncut model, and ``left`` those after the removal.
    """
    rows = []
    for part, raw in outcomes.items():
        parameters, left = map(int, raw["parameters"])
        row: dict[str, Any] = {
            "share": share_in(part),
            "removed": int(raw["removed"]),
            "parameters": parameters,
            "left": left,
        }
        for when in ("pruned", "tuned"):
            loss = of_losses(raw[f"loss_{when}"][None, None] / MILLINAT, raw["tokens"])
            perplexity = mean_curves({when: loss}, statistics)[when]
            row[when] = np.exp(perplexity.value[0])
            row[f"{when}_interval"] = np.exp(perplexity.interval[0])
        rows.append(row)
    return {"recovered": sorted(rows, key=lambda row: row["share"])}
