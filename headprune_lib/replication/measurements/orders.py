"""The orders in which a pruning curve removes heads: one a part of the result.

Orders are scored once and heads are removed cumulatively, as in the paper; ``importance rescored``
measures I_h again after each step. Every criterion of the library is an order as well, under its
own name, and so are ``"<criterion> unnormalised"`` and ``"<criterion> reversed"``. What follows
" training" is the seed of a further training that the order is measured on.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headprune_lib.ablation import one_head_masks
from headprune_lib.masking import HeadTensors, ones_mask
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.measurements.effects import one_by_one_scores
from headprune_lib.replication.measurements.measurement import Context, Half
from headprune_lib.replication.order_names import NamedOrder, read_name
from headprune_lib.replication.store import Arrays
from headprune_lib.replication.translation.outcomes import first_verses
from headprune_lib.replication.translation.subject import TranslationSubject
from headprune_lib.scoring import normalize_l2
from headprune_lib.selection import Head, prune_schedule, rank_heads

Subject = EncoderSubject | TranslationSubject

IMPORTANCE = "importance"
ONE_BY_ONE = "oracle leak-free"
"""The one-by-one order that is chosen on other data than it is measured on."""
# Those that a profile measures without being asked for more ...
FEW = (IMPORTANCE, "random")
# ... and all that the paper and its critics compare.
EVERY = {
    "encoder": (
        IMPORTANCE,
        "importance unnormalised",
        "importance reversed",
        "oracle",
        ONE_BY_ONE,
        "random",
        "importance rescored",
    ),
    "translation": (IMPORTANCE, "importance unnormalised", "oracle", ONE_BY_ONE, "random"),
}
ENCODER = {
    "every": EVERY["encoder"],
    "leak-free": (IMPORTANCE, ONE_BY_ONE, "random"),
    "importance": FEW,
}
"""What a profile says of the orders on an encoder -> their names."""

_TRAINING = " training "


def further_training(seed: int, order: str = IMPORTANCE) -> str:
    """The name of an order on a training that is not the first."""
    return f"{order}{_TRAINING}{seed}"


def training_in(name: str) -> tuple[str, int | None]:
    """The order in a part's name, and the seed of the training; None for the first.

    >>> training_in("enc-dec importance training 3"), training_in("random")
    (('enc-dec importance', 3), ('random', None))
    """
    order, _, seed = name.rpartition(_TRAINING)
    return (order, int(seed)) if order and seed.isdecimal() else (name, None)


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


def orders_of(
    context: Context, name: str, main: Subject, kind: str | None = None
) -> Iterator[tuple[str, Subject, list[Head]]]:
    """Every run of an order: its name (a seed, or the number of a draw), the model, the heads.

    Args:
        name: one of ``EVERY``, or of a criterion; see :func:`read_order`.
        main: the first training; in the translation half any, each is a part of its own.
        kind: only heads of this kind go.

    Raises:
        ValueError: neither an order nor a criterion.
    """

    def important(subject: Subject) -> list[Head]:
        order = rank_heads(subject.importance(context.journal))
        return [head for head in order if kind in (None, head[0])]

    profile, read = context.profile, read_order(context.half, name)
    if name == "random":
        draws = profile.random_orders if context.half == "encoder" else profile.translation_orders
        heads = important(main)
        for draw in range(draws):
            yield str(draw), main, random_order(heads, draw)
    elif name == IMPORTANCE:
        for subject in (main, *_further(context)):
            yield str(subject.seed), subject, important(subject)
    else:
        order = _single(context, name, main) if read is None else by_criterion(context, read, main)
        yield str(main.seed), main, [head for head in order if kind in (None, head[0])]


def _further(context: Context) -> Iterator[Subject]:
    """The other trainings of an encoder; those of a translation model are parts of their own."""
    if context.half == "encoder":
        for seed in context.profile.seeds[1:]:
            yield EncoderSubject.of(context.profile, seed)


def _single(context: Context, name: str, main: Subject) -> list[Head]:
    plain = main.importance(context.journal, normalize=None)
    if name == "importance unnormalised":
        return rank_heads(plain)
    if name == "importance reversed":
        return rank_heads(normalize_l2(plain))[::-1]
    if name == "importance rescored":
        return rescored(context, main, read_name(name))
    return rank_heads(_one_by_one(context, main, leak_free=name == ONE_BY_ONE))


def by_criterion(context: Context, named: NamedOrder, main: Subject) -> list[Head]:
    """The heads in order of a criterion, the lowest score first unless its name turns it round."""
    if named.rescored:
        return rescored(context, main, named)
    order = rank_heads(main.scores(context.journal, named))
    return order[::-1] if named.reverse else order


def _one_by_one(context: Context, main: Subject, leak_free: bool) -> HeadTensors:
    """What each head's absence costs, on the test set (the paper's way) or on other data."""
    profile, journal = context.profile, context.journal
    if context.half == "encoder":
        if not leak_free:
            return one_by_one_scores(context.get("one_head").raw)
        return one_by_one_scores(training_sweep(context, main))
    if not leak_free:
        found = first_verses(context.get("one_head").raw, profile.n_verses)
        return one_by_one_scores(found)
    masks = one_head_masks(main.model)
    return one_by_one_scores(
        main.sweep_heads(main.pairs("valid"), masks, journal, "one head cut (valid)")
    )


def training_sweep(context: Context, main: EncoderSubject) -> Arrays:
    """Each head cut in turn, on the training sentences of choices that must not see the test set."""
    task = context.profile.task
    return main.sweep("one head", main.selection, context.journal, f"{task} (train)")


def random_order(heads: list[Head], draw: int) -> list[Head]:
    """The heads in an order that depends on the number of the draw, and on the order given."""
    return [heads[i] for i in np.random.default_rng(draw).permutation(len(heads))]


def rescored(context: Context, main: Subject, named: NamedOrder) -> list[Head]:
    """Heads in the order of scores that are measured again after each step, without what is gone."""
    mask, order = ones_mask(main.model), []
    schedule = prune_schedule(
        sum(values.numel() for values in mask.values()), context.profile.steps
    )
    for done in range(context.profile.steps):
        scores = main.scores(context.journal, named, mask)
        found = rank_heads(scores)[:: -1 if named.reverse else 1]
        left = [head for head in found if head not in order]
        order += left[: schedule[done + 1] - schedule[done]]
        for kind, layer, head in order:
            mask[kind][layer, head] = 0
    return order
