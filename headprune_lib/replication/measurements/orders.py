"""The orders in which a pruning curve removes heads: one a part of the result.

Orders are scored once and heads are removed cumulatively, as in the paper; ``importance rescored``
measures I_h again after each step. Every criterion of the library is an order as well, under its
own name, with the words of :data:`headprune_lib.replication.order_names.WAYS`.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from headprune_lib.replication.engine import side_by_side
from headprune_lib.replication.lazy import masking, scoring, selection, setups
from headprune_lib.replication.measurements.base import Context, Half
from headprune_lib.replication.measurements.effects import one_by_one_scores
from headprune_lib.replication.measurements.removal import Run, Subject
from headprune_lib.replication.order_names import IMPORTANCE, RANDOM, NamedOrder, read_name
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import Arrays
from headprune_lib.replication.store.heads import heads_array, heads_in
from headprune_lib.replication.store.verses import first_verses

ONE_BY_ONE = "oracle leak-free"
"""The one-by-one order that is chosen on other data than it is measured on."""
# Those that a profile measures without being asked for more ...
FEW = (IMPORTANCE, RANDOM)
# ... and all that the paper and its critics compare.
EVERY = {
    "encoder": (
        IMPORTANCE,
        "importance unnormalised",
        "importance reversed",
        "oracle",
        ONE_BY_ONE,
        RANDOM,
        "importance rescored",
    ),
    "translation": (IMPORTANCE, "importance unnormalised", "oracle", ONE_BY_ONE, RANDOM),
}
ENCODER = {
    "every": EVERY["encoder"],
    "leak-free": (IMPORTANCE, ONE_BY_ONE, RANDOM),
    "importance": FEW,
}
"""What a profile says of the orders on an encoder -> their names."""


def n_random(half: Half, profile: Profile) -> int:
    """Random orders a training."""
    return profile.random_orders if half == "encoder" else profile.translation_orders


def read_order(half: Half, name: str) -> NamedOrder | None:
    """What an order's name says; None for an order of ``EVERY``.

    Raises:
        ValueError: neither an order nor a criterion.
    """
    return None if name in EVERY[half] else read_name(name, EVERY[half])


def own_of_order(half: Half, name: str) -> dict[str, int]:
    """What an order depends on besides its name and the profile: its criterion's version."""
    read = read_order(half, name)
    return {} if read is None else {"criterion": read.criterion.version}


COSTLY = {"gates", "greedy", "importance-integrated", "second-order", "shapley"}
"""Criteria whose scores take many passes: a verification takes them as they are stored."""


def orders_of(context: Context, name: str, main: Subject, kind: str | None = None) -> list[Run]:
    """Every run of an order.

    Args:
        name: one of ``EVERY``, or of a criterion; see :func:`read_order`.
        main: the first training; in the translation half any, each is a part of its own.
        kind: the only kind whose heads are removed.

    Raises:
        ValueError: neither an order nor a criterion.
    """
    profile, read = context.profile, read_order(context.half, name)

    def ranked(subject: Subject) -> list[selection.Head]:
        if name in (IMPORTANCE, RANDOM):
            order = selection.rank_heads(subject.importance(context.journal))
        elif read is None:
            order = _single(context, name, subject)
        else:
            order = by_criterion(context, read, subject)
        return [head for head in order if kind in (None, head[0])]

    def orders() -> Arrays:
        if name == RANDOM:
            heads = ranked(main)
            head_orders = [random_order(heads, int(draw)) for draw, _ in runs]
        else:
            head_orders = side_by_side([partial(ranked, subject) for _, subject in runs])
        return {"order": np.stack([heads_array(heads) for heads in head_orders])}

    runs = [(str(main.seed), main)]
    if name == RANDOM:
        runs = [(str(draw), main) for draw in range(n_random(context.half, profile))]
    elif name == IMPORTANCE and context.half == "encoder":
        runs += [(str(seed), context.subject(seed)) for seed in profile.seeds[1:]]
    # the translators' choice on other text is not stored
    costly = name == ONE_BY_ONE and context.half == "translation"
    costly |= name == "importance rescored" or (read is not None and is_costly(read))
    order = context.settled(["order"], orders, costly=costly)["order"]
    return [(*run, heads_in(heads)) for run, heads in zip(runs, order, strict=True)]


def is_costly(order: NamedOrder) -> bool:
    """Whether a verification takes an order as it is stored."""
    return order.rescored or order.criterion.name in COSTLY


def _single(context: Context, name: str, main: Subject) -> list[selection.Head]:
    plain = main.importance(context.journal, normalize=None)
    if name == "importance unnormalised":
        return selection.rank_heads(plain)
    if name == "importance reversed":
        return selection.rank_heads(scoring.normalize_l2(plain))[::-1]
    if name == "importance rescored":
        return _rescored(context, main, read_name(name))
    return selection.rank_heads(_one_by_one(context, main, leak_free=name == ONE_BY_ONE))


def by_criterion(context: Context, order: NamedOrder, main: Subject) -> list[selection.Head]:
    """The heads in order of a criterion, the lowest score first unless its name turns it round."""
    if order.rescored:
        return _rescored(context, main, order)
    return order.ranked(main.scores(context.journal, order))


def _one_by_one(context: Context, main: Subject, leak_free: bool) -> masking.HeadTensors:
    """What each head's absence costs, on the test set (the paper's way) or on other data."""
    if context.half == "encoder":
        if not leak_free:
            return one_by_one_scores(context.get("one_head").raw)
        return one_by_one_scores(training_sweep(context, main))
    if not leak_free:
        verses = context.profile.n_verses
        return one_by_one_scores(first_verses(context.get("one_head").raw, verses))
    name = f"{context.task} (valid)"
    return one_by_one_scores(main.sweep("one head", main.pairs("valid"), context.journal, name))


def training_sweep(context: Context, main: setups.EncoderSubject) -> Arrays:
    """Each head cut in turn, on the training sentences of choices that must not see the test set."""
    texts, name = setups.measured_on(main.selection), f"{context.task} (train)"
    return context.settled_under(
        "train_", lambda: main.sweep("one head", texts, context.journal, name)
    )


def random_order(heads: list[selection.Head], draw: int) -> list[selection.Head]:
    """The heads in an order that depends on the number of the draw, and on the order given."""
    return [heads[i] for i in np.random.default_rng(draw).permutation(len(heads))]


def _rescored(context: Context, main: Subject, rescored: NamedOrder) -> list[selection.Head]:
    """Heads in the order of scores that are measured again after each step, without the removed ones."""
    mask, order = masking.ones_mask(main.model), []
    schedule = selection.prune_schedule(
        sum(values.numel() for values in mask.values()), context.profile.steps
    )
    for done in range(context.profile.steps):
        ranked = rescored.ranked(main.scores(context.journal, rescored, mask))
        left = [head for head in ranked if head not in order]
        order += left[: schedule[done + 1] - schedule[done]]
        for kind, layer, head in order:
            mask[kind][layer, head] = 0
    return order
