"""The orders in which a pruning curve removes heads, one per part of the result.

Heads are scored once and removed cumulatively, as in the paper; ``importance rescored`` measures
I_h again after each step. Every criterion of the library is an order as well, under its own name,
with the words of :data:`headprune_lib.replication.order_names.WAYS`.

Also masks, or gates, along these orders, and the outcomes of every text under them.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from headprune_lib.replication.data import TASKS, Texts
from headprune_lib.replication.engine import side_by_side
from headprune_lib.replication.lazy import mask_tuning, masking, selection, setups
from headprune_lib.replication.measurements.base import Context, Half
from headprune_lib.replication.measurements.single_heads import one_by_one_scores
from headprune_lib.replication.metrics import MILLINAT, SCORES, millinats
from headprune_lib.replication.order_names import (
    IMPORTANCE,
    RANDOM,
    NamedOrder,
    mask_key,
    read_name,
)
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import Arrays, Journal, Measured
from headprune_lib.replication.store.packing import (
    coarse_losses,
    first_verses,
    heads_array,
    heads_in,
)

Subject: TypeAlias = "setups.EncoderSubject | setups.TranslationSubject"
Run: TypeAlias = "tuple[str, Subject, list[selection.Head]]"
"""A run's name (a seed, or the number of a draw), the model, and the heads in order."""
ONE_BY_ONE = "oracle leak-free"
"""The one-by-one order chosen on different data from those it is measured on."""
# The orders that a profile measures by default ...
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
"""A profile's value of ``orders`` -> the names of the orders on an encoder."""


def n_random(half: Half, profile: Profile) -> int:
    """The number of random orders per training."""
    return profile.random_orders if half == "encoder" else profile.translation_orders


def read_order(half: Half, name: str) -> NamedOrder | None:
    """Read an order's name; None for an order of ``EVERY``.

    Raises:
        ValueError: neither an order nor a criterion.
    """
    return None if name in EVERY[half] else read_name(name, EVERY[half])


COSTLY = {"gates", "greedy", "importance-integrated", "second-order", "shapley"}
"""Criteria whose scores take many passes: a verification uses the stored scores."""


def orders_of(context: Context, name: str, main: Subject, kind: str | None = None) -> list[Run]:
    """Every run of an order.

    Args:
        name: one of ``EVERY``, or a criterion's; see :func:`read_order`.
        main: the first training; in the translation half any, as each is a part of its own.
        kind: the only kind whose heads are removed; all kinds if not given.

    Raises:
        ValueError: neither an order nor a criterion.
    """
    profile, read = context.profile, read_order(context.half, name)

    def ranked(subject: Subject) -> list[selection.Head]:
        return [head for head in _single(context, name, subject) if kind in (None, head[0])]

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
    # the outcomes of the translators' choice on other text are not stored
    costly = name == ONE_BY_ONE and context.half == "translation"
    costly |= name == "importance rescored" or (read is not None and is_costly(read))
    order = context.settled(["order"], orders, costly=costly)["order"]
    return [(*run, heads_in(heads)) for run, heads in zip(runs, order, strict=True)]


def is_costly(order: NamedOrder) -> bool:
    """Whether a verification uses the stored order without computing it."""
    return order.rescored or order.criterion.name in COSTLY


def _single(context: Context, name: str, main: Subject) -> list[selection.Head]:
    if (read := read_order(context.half, name)) is not None:
        return by_criterion(context, read, main)
    if name == "importance rescored":
        return _rescored(context, main, read_name(name))
    if "oracle" in name:
        return selection.rank_heads(_one_by_one(context, main, leak_free=name == ONE_BY_ONE))
    if name == "importance unnormalised":
        return selection.rank_heads(main.importance(context.journal, normalize=None))
    order = selection.rank_heads(main.importance(context.journal))
    return order[::-1] if name == "importance reversed" else order


def by_criterion(context: Context, order: NamedOrder, main: Subject) -> list[selection.Head]:
    """The heads in order of a criterion, the lowest score first unless the name reverses it."""
    if order.rescored:
        return _rescored(context, main, order)
    return order.ranked(main.scores(context.journal, order))


def _one_by_one(context: Context, main: Subject, leak_free: bool) -> masking.HeadTensors:
    """The cost of cutting each head, on the test set (as in the paper) or on other data."""
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
    """Outcomes with each head cut, on training sentences for choices that exclude the test set."""
    texts, name = setups.measured_on(main.selection), f"{context.task} (train)"
    return context.settled_under(
        "train_", lambda: main.sweep("one head", texts, context.journal, name)
    )


def random_order(heads: list[selection.Head], draw: int) -> list[selection.Head]:
    """The heads in a random order, fixed by the number of the draw and the order given."""
    return [heads[i] for i in np.random.default_rng(draw).permutation(len(heads))]


def _rescored(context: Context, main: Subject, order: NamedOrder) -> list[selection.Head]:
    """Heads in the order of scores measured again after each step, the removed heads masked."""
    mask, gone = masking.ones_mask(main.model), []
    schedule = selection.prune_schedule(len(main.heads), context.profile.steps)
    for n_gone in schedule[1:]:
        ranked = order.ranked(main.scores(context.journal, order, mask))
        gone += [head for head in ranked if head not in gone][: n_gone - len(gone)]
        for kind, layer, head in gone:
            mask[kind][layer, head] = 0
    return gone


# --- masks along an order -------------------------------------------------------------------------


def n_cut(n_heads: int, share: float) -> int:
    """The number of heads removed at a share: rounded up, as in the paper's schedule.

    >>> n_cut(72, 0.05), n_cut(72, 0.5), n_cut(72, 1.0)
    (4, 36, 72)
    """
    return int(np.ceil(n_heads * share - 1e-9))


def masks_along(
    subject: Subject, order: list[selection.Head], shares: tuple[float, ...]
) -> list[masking.HeadTensors]:
    """The mask at each share removed."""
    return selection.order_masks(
        subject.model, order, [n_cut(len(order), share) for share in shares]
    )


def along(
    context: Context, runs: Sequence[Run], title: str, pairs: Texts | None = None
) -> Measured:
    """Measure every run of an order: the heads that it removes, and the outcomes after each step.

    Args:
        pairs: verses to translate in the translation half: once by the unmasked model, then after
            each step of each run.
    """
    profile, journal = context.profile, context.journal
    main, steps = runs[0][1], profile.steps
    masks = [
        selection.order_masks(subject.model, order, selection.prune_schedule(len(order), steps))
        for _, subject, order in runs
    ]
    raw = {
        "names": np.array([name for name, *_ in runs]),
        "order": np.stack([heads_array(order) for *_, order in runs]),
        "shares": np.arange(steps + 1) / steps,
    }
    if pairs is not None:
        cut = dict(enumerate(mask for of_run in masks for mask in of_run[1:]))
        swept = main.outcomes(cut, pairs, journal, f"pruning curve, {title}")
        return main.measured({**coarse_losses(swept), **raw}, len(pairs))
    curves = side_by_side(
        [
            partial(subject.curve, of_run, subject.test, journal, f"{title}/{name}")
            for (name, subject, _), of_run in zip(runs, masks, strict=True)
        ]
    )
    loss = np.stack([millinats(curve["loss"]) for curve in curves])
    raw |= {
        "correct": np.stack([curve["correct"] for curve in curves]),
        "loss": loss,
        "log_loss": loss.mean(-1) / MILLINAT,
    }
    subjects = {subject.seed: subject for _, subject, _ in runs}
    measured = measured_answers(main, raw, main.test)
    if measured.metric == "accuracy":  # the default, which these results do not name
        del measured.raw["metric"]
    return dataclasses.replace(measured, runs=[subject.run for subject in subjects.values()])


def measured_answers(subject: Subject, raw: Arrays, texts: Texts) -> Measured:
    """Outcomes as the store takes them; for a classifier with labels and the score's metric."""
    if isinstance(subject, setups.TranslationSubject):
        return subject.measured(raw, len(texts))
    metric = TASKS[subject.profile.task].metric
    labels = np.array(texts.labels, np.int8)
    return subject.measured(
        raw | {"labels": labels, "metric": np.array(metric)},
        n_examples=len(texts),
        metric=metric,
        unit=SCORES[metric].unit,
    )


# --- masks that several orders share --------------------------------------------------------------


def losses_under(
    subject: Subject, masks: Sequence[masking.HeadTensors], texts: Texts, journal: Journal
) -> np.ndarray:
    """Losses (M, n) in nats: of the right answer, or of the reference as a mean over its pieces."""
    if isinstance(subject, setups.EncoderSubject):
        return outcomes_under(subject, masks, texts, journal)["loss"]
    named, rows = _distinct(masks, texts)
    references = subject.reference_losses(texts, named, journal)
    return (references["loss"] / references["pieces"])[rows]


def outcomes_under(
    subject: Subject, masks: Sequence[masking.HeadTensors], texts: Texts, journal: Journal
) -> Arrays:
    """The loss as in :func:`losses_under`, and the outcomes that the score is computed from.

    A mask is evaluated once, whichever order of removal cut its heads.

    Returns:
        ``loss`` (M, n), and ``correct`` (M, n) for an encoder, or packed ``counts`` (M, n, 5) with
        ``reference_lengths`` (n,) for a translator.
    """
    named, rows = _distinct(masks, texts)
    if isinstance(subject, setups.EncoderSubject):
        outcomes = subject.outcomes(named, texts, journal, f"masks, seed {subject.seed}")
        return {name: values[rows] for name, values in outcomes.items()}
    loss = losses_under(subject, masks, texts, journal)
    outcomes = _translations(subject, named, texts, journal)
    return {**outcomes, "loss": loss, "counts": outcomes["counts"][rows]}


def _distinct(
    masks: Sequence[masking.HeadTensors], texts: Texts
) -> tuple[dict[str, masking.HeadTensors], list[int]]:
    """The distinct masks by their names in the journal, and the place of each mask among them."""
    names = [f"{texts.sha256[:8]} {mask_key(mask)}" for mask in masks]
    named = dict(zip(names, masks, strict=True))
    return named, [list(named).index(name) for name in names]


def _translations(
    subject: setups.TranslationSubject,
    named: Mapping[str, masking.HeadTensors],
    pairs: Texts,
    journal: Journal,
) -> Arrays:
    """N-gram counts under each mask, a unit of the journal; missing ones share a sweep's passes."""
    keys = {name: f"{subject.key} translated {name}" for name in named}
    missing = {name: mask for name, mask in named.items() if not journal.done(keys[name])}
    new: dict[str, Arrays] = {}
    if missing:
        digest = hashlib.sha256(" ".join(missing).encode()).hexdigest()[:8]
        raw = subject.outcomes(missing, pairs, journal, f"masks {digest}")
        for name, change in zip(missing, raw["counts_change"], strict=True):
            new[name] = {
                "counts": raw["counts_uncut"] + change,
                "reference_lengths": raw["reference_lengths"],
            }
    units = [journal.unit(keys[name], lambda name=name: new[name]) for name in named]
    return {
        "counts": np.stack([unit["counts"] for unit in units]),
        "reference_lengths": units[0]["reference_lengths"],
    }


# --- gates in place of masks: remaining heads compensate for removed ones --------------------------------

TUNING = 1
"""Bumped by hand when the objective of the gates changes: tuned orders are then measured anew."""


def tuned(
    subject: Subject, runs: Sequence[Sequence[masking.HeadTensors]], journal: Journal
) -> Arrays:
    """Gates in place of the masks of every run, fitted on the text that heads are scored on.

    A mask that occurs twice is fitted once.

    Returns:
        ``gates <kind>`` (run, step, layer, head), in float32 like masks.
    """
    keys = [[f"gates {TUNING} {mask_key(mask)}" for mask in run] for run in runs]

    def measure(mask: masking.HeadTensors) -> Arrays:
        if isinstance(subject, setups.TranslationSubject):
            batches = subject.forced(subject.split("score")).batches
        else:
            batches = subject.batches(subject.scoring).batches
        gates = mask_tuning.tune_mask(subject.model, mask, batches)
        return {kind: values.float().numpy() for kind, values in gates.items()}

    units = {
        key: partial(measure, mask)
        for of_run, run in zip(keys, runs, strict=True)
        for key, mask in zip(of_run, run, strict=True)
    }
    done = subject.compute(units, journal, f"gates, seed {subject.seed}")
    fitted = dict(zip(units, done, strict=True))
    return {
        f"gates {kind}": np.array([[fitted[key][kind] for key in run] for run in keys])
        for kind in runs[0][0]
    }
