"""What a result holds besides outcomes of masks: importance, orders, choices, sizes, texts.

Orders and choices must follow from other stored numbers; the rest is computed from the model.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Collection, Iterator

import numpy as np

from headprune_lib.masking import HeadTensors, ones_mask
from headprune_lib.pruning import prune_heads
from headprune_lib.replication.measurements import half_of, precision
from headprune_lib.replication.measurements.along_training import outcomes_of
from headprune_lib.replication.measurements.references import rounded_losses
from headprune_lib.replication.measurements.removal import losses_under
from headprune_lib.replication.measurements.single_heads import best_of_layers
from headprune_lib.replication.measurements.speed import attention_parameters, timed_pairs
from headprune_lib.replication.measurements.translators import costly_heads, shared_ngrams
from headprune_lib.replication.metrics import MILLINAT, coarse
from headprune_lib.replication.setups import EncoderSubject, TranslationSubject
from headprune_lib.replication.store import Arrays, Journal, Result
from headprune_lib.replication.store.heads import heads_array, heads_in
from headprune_lib.replication.store.verses import first_verses
from headprune_lib.replication.verification.followed import followed
from headprune_lib.replication.verification.orders import (
    Subject,
    beside,
    order_that_follows,
    own_outcomes,
    stored_importance,
)
from headprune_lib.replication.verification.quantities import (
    NATS,
    RELATIVE,
    Quantity,
    equal,
    same_scores,
)
from headprune_lib.replication.verification.scored import few_sentences, other_text, roles
from headprune_lib.selection import order_mask, prune_schedule, rank_heads


def further(
    result: Result, subject: Subject, journal: Journal, parts: Collection[str]
) -> Iterator[Quantity]:
    """What else is found again on the weights that a result was measured on.

    Args:
        journal: keeps importance, which several results of a model share.
        parts: those of which it is found again; what they follow from is read of others too.
    """
    for check in _CHECKS.get(result.measurement, ()):
        yield from check(result, subject, journal, parts)


def _importance(
    result: Result, subject: Subject, journal: Journal, parts: Collection[str]
) -> Iterator[Quantity]:
    asked = {name: part for name, part in result.parts.items() if name in parts}
    stored = stored_importance(dataclasses.replace(result, parts=asked), subject.seed)
    found = subject.importance(journal, normalize=None) if stored else {}
    for kind, values in stored.items():
        yield same_scores(f"importance, {kind}", values.numpy(), found[kind].numpy())


def _plain_importance(
    result: Result, subject: EncoderSubject, journal: Journal, _parts: Collection[str]
) -> Iterator[Quantity]:
    stored = own_outcomes(result, subject)["scores"]
    found = precision.importance(subject, journal, "float32")["self"].numpy()
    yield same_scores("importance in float32", stored, found)


# --- orders and choices ---------------------------------------------------------------------------


def _orders(
    result: Result, subject: Subject, _journal: Journal, parts: Collection[str]
) -> Iterator[Quantity]:
    """Stored orders that follow from stored scores; the others are found again as masks alone."""
    for name, part in result.parts.items():
        if name not in parts:
            continue
        seeds, stored = [run["seed"] for run in part.runs], part.raw.get("order", ())
        own = range(len(stored)) if len(seeds) == 1 else [seeds.index(subject.seed)]
        for run in own:
            follows = order_that_follows(result, subject, name, run)
            if run < len(stored) and follows is not None:
                yield equal(f"order of {name} {part.raw['names'][run]}", stored[run], follows)


def _means(
    result: Result, subject: Subject, _journal: Journal, _parts: Collection[str]
) -> Iterator[Quantity]:
    """Mean losses beside the losses of single texts, where both were kept, and the labels."""
    for name, part in result.parts.items():
        raw = part.raw
        if "labels" in raw:
            yield equal(f"labels, {name}", raw["labels"], subject.test.labels)
        if "loss" in raw:
            means = raw["loss"].mean(-1) / MILLINAT  # of all runs, or of the first alone
            yield equal(f"mean losses, {name}", raw["log_loss"][: len(means)], means)


def _choice(
    result: Result, subject: Subject, _journal: Journal, _parts: Collection[str]
) -> Iterator[Quantity]:
    raw = own_outcomes(result, subject)
    prefix = "train_" if half_of(result.key) == "encoder" else "valid_"
    tried = {
        name.removeprefix(prefix): values for name, values in raw.items() if name.startswith(prefix)
    }
    yield equal("the best heads", raw["heads"], tried["heads"][best_of_layers(tried)])


def _searched(
    result: Result, subject: Subject, _journal: Journal, _parts: Collection[str]
) -> Iterator[Quantity]:
    raw = own_outcomes(result, subject)
    one = first_verses(beside(result, subject, "one_head"), subject.profile.n_verses)
    cut, alone = raw["heads"][~raw["alone"]], raw["heads"][raw["alone"]]
    yield equal("heads that are cut", cut, heads_array(costly_heads(one)))
    yield equal("heads that are left", alone, beside(result, subject, "best_heads")["heads"])


# --- the rest -------------------------------------------------------------------------------------


def _sizes(
    result: Result, subject: EncoderSubject, journal: Journal, _parts: Collection[str]
) -> Iterator[Quantity]:
    """Parameters before and after removal; times, memory and files are of a machine."""
    raw, order = own_outcomes(result, subject), rank_heads(subject.importance(journal))
    for name, pair in timed_pairs(subject, order).items():
        every = [sum(p.numel() for p in model.parameters()) for model in pair.values()]
        attention = [attention_parameters(model) for model in pair.values()]
        yield equal(f"parameters, {name}", raw[f"{name}/parameters"], every)
        yield equal(f"those in attention, {name}", raw[f"{name}/attention"], attention)


def _removed(
    result: Result, subject: Subject, journal: Journal, parts: Collection[str]
) -> Iterator[Quantity]:
    """Of every part that was trained again: its test text, and the parameters it had and kept."""
    before = sum(p.numel() for p in subject.model.parameters())
    for part in parts:
        one = result.parts[part]
        cuts = [heads_in(heads) for heads in one.raw["heads"]]
        masks = [order_mask(subject.model, heads, len(heads)) for heads in cuts]
        if isinstance(subject, EncoderSubject):
            yield equal(f"labels, {part}", one.raw["labels"], subject.test.labels)
        else:
            yield _reference_losses(one.raw, part, subject, masks, journal)
        pruned = [prune_heads(copy.deepcopy(subject.model), mask) for mask in masks]
        left = [[before, sum(p.numel() for p in model.parameters())] for model in pruned]
        yield equal(f"parameters, {part}", one.raw["parameters"], left)


_REFERENCES = 48
"""Of which the loss is found again."""


def _reference_losses(
    raw: Arrays,
    part: str,
    subject: TranslationSubject,
    masks: list[HeadTensors],
    journal: Journal,
) -> Quantity:
    """The loss a piece of the first references, uncut and before training again."""
    pairs = subject.headline.first(_REFERENCES)
    again = losses_under(subject, [ones_mask(subject.model), *masks], pairs, journal)
    stored = np.vstack([raw["loss_uncut"], raw["loss_before"]])[:, : len(pairs)] / MILLINAT
    off = float(np.abs(stored - again).max())
    return Quantity(
        f"loss a piece of {len(pairs)} references, {part}",
        f"mean {stored.mean():.3f} nats",
        f"mean {again.mean():.3f} nats; off by up to {off:.3f}",
        f"{NATS} nats",
        off <= NATS,
    )


def _texts(
    result: Result, subject: TranslationSubject, _journal: Journal, _parts: Collection[str]
) -> Iterator[Quantity]:
    raw, pairs = own_outcomes(result, subject), subject.headline
    yield equal("sources", raw["sources"], list(pairs.sources))
    yield equal("references", raw["references"], list(pairs.targets))
    yield equal("shared n-grams", raw["overlap"], shared_ngrams(subject.split("train"), pairs))
    yield equal("learning curve", json.loads(str(raw["curve"])), subject.translator.curve)


def _checkpoint(
    result: Result, subject: TranslationSubject, journal: Journal, _parts: Collection[str]
) -> Iterator[Quantity]:
    """Of a training's last checkpoint: importance of every verse, the references' loss unpruned."""
    raw = outcomes_of(result.parts[f"training {subject.seed}"].raw, -1)
    name = "last checkpoint"
    for kind, values in subject.verse_importance(journal).items():
        stored = raw[f"each {kind}"].astype(float)
        off = np.abs(coarse(values).astype(float) - stored) / np.maximum(stored, 1e-6)
        # rounded to one part in 32: a value between two of them may go to either
        share = float((off > RELATIVE).mean())
        yield Quantity(
            f"importance of each verse, {kind}, {name}",
            f"mean {stored.mean():.4g}",
            f"mean {values.mean():.4g}; {share:.1%} other after rounding",
            "1% other, by one part in 16",
            share <= 0.01 and float(off.max()) <= 1 / 16,
        )
    masks = {}
    if "order" in raw:  # the first step
        heads = heads_in(raw["order"])
        first = prune_schedule(len(heads), len(raw["shares"]) - 1)[1]
        masks = {"importance 1": order_mask(subject.model, heads, first)}
    tested = subject.pairs("test").first(len(raw["reference_lengths"]))
    found = rounded_losses(subject, tested, masks, journal)
    for what, label in (("uncut", "unpruned"), ("change", "change at the first step")):
        stored = raw[f"reference_loss_{what}"]
        stored = stored if what == "uncut" else stored[: len(masks)]
        off = np.abs(found[f"reference_loss_{what}"] - stored) / MILLINAT
        if stored.size:
            # changes are rounded to one part in 32, and may go to either neighbour
            most = NATS + (np.abs(stored) / (16 * MILLINAT) if what == "change" else 0)
            yield Quantity(
                f"loss of the references, {label}, {name}",
                f"{stored.mean() / MILLINAT:.3f} nats",
                f"{found[f'reference_loss_{what}'].mean() / MILLINAT:.3f} nats",
                f"{NATS} nats each, and its rounding",
                bool((off <= most).all()),
            )


Check = Callable[[Result, Subject, Journal, Collection[str]], Iterator[Quantity]]
_CHECKS: dict[str, tuple[Check, ...]] = {
    "pruning_curve": (_importance, _orders, _means),
    "pruning_by_kind": (_importance, _orders, _means),
    "agreement": (_importance,),
    "precision": (_plain_importance,),
    "best_heads": (_choice,),
    "search": (_searched,),
    "speed": (_sizes,),
    "quality": (_texts,),
    "along_training": (_checkpoint,),
    "which_first": (followed,),
    "scoring_examples": (few_sentences,),
    "stability": (other_text,),
    "head_roles": (roles,),
    "recovery": (_removed,),
}
