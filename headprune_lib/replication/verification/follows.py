"""What a result holds besides outcomes of masks: scores, orders, choices, sizes, texts.

Orders and choices must follow from other stored numbers; the rest is computed from the model.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch

from headprune_lib.criteria.attention import means_over_queries
from headprune_lib.discovery import KINDS
from headprune_lib.masking import HeadTensors, ones_mask
from headprune_lib.pruning import prune_heads
from headprune_lib.replication import stats
from headprune_lib.replication.bounds import ORDERS_UP_TO
from headprune_lib.replication.data import TASKS
from headprune_lib.replication.engine import run_units
from headprune_lib.replication.measurements import half_of, precision
from headprune_lib.replication.measurements.contrasts import COMBINED, CONTROL
from headprune_lib.replication.measurements.head_roles import statistics_of
from headprune_lib.replication.measurements.language_curve import share_in
from headprune_lib.replication.measurements.orders import random_order
from headprune_lib.replication.measurements.removal import (
    factors_along,
    losses_under,
    masks_along,
    tuned,
)
from headprune_lib.replication.measurements.scores import (
    PLAIN,
    drawn,
    effect_of,
    n_pool,
    scored_once,
    scores_on,
)
from headprune_lib.replication.measurements.single_heads import best_of_layers
from headprune_lib.replication.measurements.speed import attention_parameters, timed_pairs
from headprune_lib.replication.measurements.translators import costly_heads, shared_ngrams
from headprune_lib.replication.measurements.which_first import (
    alpha_in,
    combined_order,
    loss_area,
    tested,
)
from headprune_lib.replication.metrics import MILLINAT, coarse
from headprune_lib.replication.models.pretrained import load_tokenizer
from headprune_lib.replication.order_names import parse_part, read_name
from headprune_lib.replication.setups import EncoderSubject, whole_thousandths
from headprune_lib.replication.store import Arrays, Journal, Result
from headprune_lib.replication.store.heads import heads_array, heads_in
from headprune_lib.replication.store.verses import first_verses
from headprune_lib.replication.verification.outcomes import (
    Subject,
    beside,
    order_that_follows,
    own_outcomes,
    own_runs,
    seeds_in,
)
from headprune_lib.replication.verification.quantities import (
    NATS,
    RELATIVE,
    Quantity,
    equal,
    same_draws,
    same_scores,
    within,
)
from headprune_lib.scoring import normalize_l2
from headprune_lib.selection import order_mask, rank_heads

GATE = 0.02
"""How far a gate that is fitted again may be off."""
_TEXTS = 16
"""Of which the losses along an order are measured again."""


class Stored(NamedTuple):
    """The outcomes of a part that was measured on a training, and what they are compared with.

    Attributes:
        raw: of a training's checkpoints those of the last one.
        journal: keeps importance, which several results of a model share.
    """

    result: Result
    subject: Subject
    part: str
    raw: Arrays
    journal: Journal

    @property
    def order(self) -> str:
        """The order or criterion that the part is named after."""
        return parse_part(self.part).curve

    def of_order(self, order: str) -> Arrays:
        """The outcomes of another order on the same training; empty where it was not measured."""
        parts = own_outcomes(self.result, self.subject).items()
        return next((raw for name, raw in parts if parse_part(name).curve == order), {})


def follows(result: Result, subject: Subject, journal: Journal) -> Iterator[Quantity]:
    """What else is found again on the weights that a result was measured on."""
    for part, raw in own_outcomes(result, subject).items():
        stored = Stored(result, subject, part, raw, journal)
        for check in _CHECKS.get(result.measurement, ()):
            yield from check(stored)


# --- scores ---------------------------------------------------------------------------------------


def _measured_scores(stored: Stored, order: str, text: str | None = None) -> HeadTensors | None:
    """Scores that are measured again, which other results of the model hold as well.

    None of any others: their orders must follow from what is stored.
    """
    subject, journal = stored.subject, stored.journal
    own = text in (None, stored.result.task)
    if order == PLAIN and own:
        return subject.importance(journal, normalize=None)
    if order == "entropy" and own:
        return subject.scores(journal, read_name(order))
    if order == "entropy":
        sentences = TASKS[text].split("test", subject.profile.data).first(subject.profile.n_domain)
        return scores_on(subject, read_name(order), sentences, journal)
    return None


def _importance(stored: Stored) -> Iterator[Quantity]:
    """I_h beside orders: one a training (training, layer, head), or that of the first."""
    place = seeds_in(stored.result.parts[stored.part]).index(stored.subject.seed)
    for kind, values in _scores(stored.raw, ("", "self", *KINDS)).items():
        each = values if values.ndim == 3 else values[None]
        if place < len(each):
            found = _measured_scores(stored, PLAIN)[kind or "self"].numpy()
            yield same_scores(f"importance, {kind}", each[place].numpy(), found)


def _scores(raw: Arrays, kinds: tuple[str, ...] = ("self", *KINDS)) -> HeadTensors:
    """In the order of kinds that the model has: equal ranks of two kinds go by it."""
    names = {kind: f"scores {kind}".rstrip() for kind in kinds}
    return {kind: torch.from_numpy(raw[name]) for kind, name in names.items() if name in raw}


def _compared_scores(stored: Stored) -> Iterator[Quantity]:
    order, scores = parse_part(stored.order, "tuned").order, _scores(stored.raw)
    found = _measured_scores(stored, order)
    if order == "importance":
        found = normalize_l2(_scores(stored.of_order(PLAIN)))
    if found:
        for kind, values in scores.items():
            yield same_scores(f"{order}, {kind}", values.numpy(), found[kind].numpy())


def _scores_by_text(stored: Stored) -> Iterator[Quantity]:
    """Importance normalised must follow from what is not."""
    raw, order = stored.raw, stored.order
    if "effect" in raw:
        effect = effect_of(beside(stored.result, stored.subject, "one_head"))
        yield equal(f"effects, {order}", raw["effect"], effect)
    for text in map(str, raw["texts"]):
        found = _measured_scores(stored, order, text)
        if order == "importance" and (plain := stored.of_order(PLAIN)):
            found = normalize_l2({"self": torch.from_numpy(plain[f"scores {text}"])})
        if found:
            yield same_scores(f"{order}, {text}", raw[f"scores {text}"], found["self"].numpy())


def _float32(stored: Stored) -> Iterator[Quantity]:
    found = precision.importance(stored.subject, stored.journal, "float32")["self"].numpy()
    yield same_scores("importance in float32", stored.raw["scores"], found)


def _few_sentences(stored: Stored) -> Iterator[Quantity]:
    """Draws, the scores on the fewest sentences, and every order."""
    _, subject, part, raw, journal = stored
    profile, named = subject.profile, scored_once(part)
    wide = dataclasses.replace(profile, n_scoring=n_pool(profile))
    texts = [*drawn(dataclasses.replace(subject, profile=wide).scoring)]
    yield equal(f"sentences, {part}", raw["n"], [n for n, _, _ in texts])
    yield equal(f"draws, {part}", raw["draw"], [draw for _, draw, _ in texts])
    for row, (n, draw, sentences) in enumerate(texts):
        order = rank_heads({"self": torch.from_numpy(raw["scores"][row])})
        heads = heads_array(order[:: -1 if named.reverse else 1])
        yield equal(f"order of {part}, {n} sentences", raw["order"][row], heads)
        if n == texts[0][0]:
            found = scores_on(subject, named, sentences, journal)["self"].numpy()
            yield same_scores(f"{part}, {n} sentences, draw {draw + 1}", raw["scores"][row], found)


def _roles(stored: Stored) -> Iterator[Quantity]:
    """What every head looks at, and importance."""
    subject = stored.subject
    wanted = statistics_of(load_tokenizer(subject.profile.model).all_special_ids)

    def measure() -> Arrays:
        eager = EncoderSubject.of(subject.profile, subject.seed, "eager")
        batches = eager.batches(eager.scoring).batches
        means = means_over_queries(eager.model, batches, [*wanted.values()])
        return {name: one["self"].numpy() for name, one in zip(wanted, means, strict=True)}

    key, title = f"{subject.key} what heads look at", "what heads look at"
    found = run_units({key: measure}, stored.journal, title)[key]
    found = {**found, "importance": _measured_scores(stored, PLAIN)["self"].numpy()}
    for name, values in stored.raw.items():
        # of made-up text without special tokens no head has weight on one
        yield (same_scores if values.any() else equal)(name, values, found[name])


def _each_importance(stored: Stored) -> Iterator[Quantity]:
    """Importance of every verse, rounded to one part in 32: it may go to either neighbour."""
    for kind, values in stored.subject.verse_importance(stored.journal).items():
        each = stored.raw[f"each {kind}"].astype(float)
        off = np.abs(coarse(values).astype(float) - each) / np.maximum(each, 1e-6)
        share = float((off > RELATIVE).mean())
        yield Quantity(
            f"importance of each verse, {kind}, last checkpoint",
            f"mean {each.mean():.4g}",
            f"mean {values.mean():.4g}; {share:.1%} other after rounding",
            "1% other, by one part in 16",
            share <= 0.01 and float(off.max()) <= 1 / 16,
        )


# --- orders and choices ---------------------------------------------------------------------------


def _orders(stored: Stored) -> Iterator[Quantity]:
    """Stored orders that follow from stored scores; the others are found again as masks alone."""
    result, subject, part, raw, _ = stored
    orders = raw.get("order", ())
    for run in own_runs(result.parts[part], subject, len(orders)):
        heads = order_that_follows(result, subject, part, run)
        if run < len(orders) and heads is not None:
            yield equal(f"order of {part} {raw['names'][run]}", orders[run], heads)


def _compared_orders(stored: Stored) -> Iterator[Quantity]:
    order, raw = parse_part(stored.order, "tuned").order, stored.raw
    orders, scores = [heads_in(heads) for heads in raw["order"]], _scores(raw)
    if scores:
        heads = rank_heads(scores)[:: -1 if read_name(order).reverse else 1]
        yield equal(f"order of {order}", orders[0], heads)
        yield equal(f"what is said of {order}", raw["said"].tolist(), [""])
    important, wide = (_scores(stored.of_order(name)) for name in (PLAIN, "entropy"))
    if not (important and wide):
        return
    chosen = stored.of_order(COMBINED)
    if order == "random":
        normalised, seed = normalize_l2(important), stored.subject.seed
        heads = rank_heads(normalised)
        again = [random_order(heads, 1000 * seed + int(draw)) for draw in raw["said"]]
        yield same_draws(f"order of {order}", orders, again, normalised)
    elif order in (COMBINED, CONTROL) and chosen:
        alpha = alpha_in(str(chosen["said"][0]))
        draws = map(int, raw["said"]) if order == CONTROL else (None,)
        again = [combined_order(alpha, important, wide, draw) for draw in draws]
        yield equal(f"order of {order}", orders, again)


def _chosen(stored: Stored) -> Iterator[Quantity]:
    raw = stored.raw
    prefix = "train_" if half_of(stored.result.key) == "encoder" else "valid_"
    tried = {
        name.removeprefix(prefix): values for name, values in raw.items() if name.startswith(prefix)
    }
    yield equal("the best heads", raw["heads"], tried["heads"][best_of_layers(tried)])


def _searched(stored: Stored) -> Iterator[Quantity]:
    result, subject, _, raw, _ = stored
    one = first_verses(beside(result, subject, "one_head"), subject.profile.n_verses)
    cut, alone = raw["heads"][~raw["alone"]], raw["heads"][raw["alone"]]
    yield equal("heads that are cut", cut, heads_array(costly_heads(one)))
    yield equal("heads that are left", alone, beside(result, subject, "best_heads")["heads"])


# --- losses along orders --------------------------------------------------------------------------


def _means(stored: Stored) -> Iterator[Quantity]:
    """Mean losses beside the losses of single texts, where both were kept."""
    if "loss" in stored.raw:
        means = stored.raw["loss"].mean(-1) / MILLINAT  # of all runs, or of the first alone
        log_loss = stored.raw["log_loss"][: len(means)]
        yield equal(f"mean losses, {stored.part}", log_loss, means)


def _gates(stored: Stored) -> Iterator[Quantity]:
    """Gates of the first run, fitted again where the most heads are gone that orders are compared at."""
    _, subject, _, raw, journal = stored
    if not parse_part(stored.order, "tuned").tuned:
        return
    inside = tuple(raw["shares"][raw["shares"] <= ORDERS_UP_TO + 1e-9])
    heads = heads_in(raw["order"][0])
    (again,) = tuned(subject, masks_along(subject, heads, inside)[-1:], journal)
    gates = factors_along(subject, raw, 0, heads, inside)[-1]
    both = (np.concatenate([side[kind].numpy() for kind in again]) for side in (gates, again))
    name = f"gates, {stored.order}, {inside[-1]:.0%} removed"
    yield within(name, *both, f"{GATE}", GATE, unit="")


def _losses_along(stored: Stored) -> Iterator[Quantity]:
    """Areas of the first texts, and mean losses of all texts with no head and with every head cut."""
    _, subject, _, raw, journal = stored
    order, area, means = stored.order, raw["loss_area"], raw["log_loss"]
    texts, inside = tested(subject), raw["shares"] <= ORDERS_UP_TO + 1e-9
    few, shares = texts.first(_TEXTS), tuple(raw["shares"][inside])
    for run, heads in enumerate(map(heads_in, raw["order"])):
        if run and order == CONTROL:
            break  # one of its draws
        masks = factors_along(subject, raw, run, heads, shares)
        again = loss_area(shares, losses_under(subject, masks, few, journal))
        yield within(
            f"loss added, {order}, run {run + 1}, {len(few)} texts",
            area[run, : len(few)],
            again,
            f"{NATS} nats, and its rounding",
            # rounded to one part in 32, to either neighbour
            MILLINAT * NATS + np.abs(again) / 16,
            "mnat",
        )
    ends = {0: ones_mask(subject.model)}
    if raw["shares"][-1] == 1:
        ends[-1] = {kind: torch.zeros_like(mask) for kind, mask in ends[0].items()}
    again = losses_under(subject, list(ends.values()), texts, journal).mean(-1)
    yield within(f"mean losses, {order}", means[:, [*ends]], again, f"{NATS} nats", NATS)
    added = means[:, inside] - means[:, :1]
    yield within(
        f"mean losses beside those of texts, {order}",
        MILLINAT * stats.area_under_curve(shares, added),
        area.mean(-1),
        f"{NATS} nats, and its rounding",
        MILLINAT * NATS + np.abs(area).mean(-1) / 32,
        "mnat",
    )


# --- labels, sizes and texts ------------------------------------------------------------------------------


def _labels(stored: Stored) -> Iterator[Quantity]:
    if isinstance(stored.subject, EncoderSubject):
        labels = stored.raw["labels"]
        yield equal(f"labels, {stored.part}", labels, stored.subject.test.first(len(labels)).labels)


def _sizes(stored: Stored) -> Iterator[Quantity]:
    """Parameters before and after removal; times, memory and files are of a machine."""
    order = rank_heads(stored.subject.importance(stored.journal))
    for name, pair in timed_pairs(stored.subject, order).items():
        attention = [attention_parameters(model) for model in pair.values()]
        yield equal(
            f"parameters, {name}", stored.raw[f"{name}/parameters"], [*map(_size, pair.values())]
        )
        yield equal(f"those in attention, {name}", stored.raw[f"{name}/attention"], attention)


def _removed(stored: Stored) -> Iterator[Quantity]:
    """The parameters of what was trained again, before and after the removal."""
    model = stored.subject.model
    cuts = [heads_in(heads) for heads in stored.raw["heads"]]
    masks = [order_mask(model, heads, len(heads)) for heads in cuts]
    left = [[_size(model), _size(prune_heads(copy.deepcopy(model), mask))] for mask in masks]
    yield equal(f"parameters, {stored.part}", stored.raw["parameters"], left)


def _size(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _texts(stored: Stored) -> Iterator[Quantity]:
    raw, subject = stored.raw, stored.subject
    pairs = subject.headline
    yield equal("sources", raw["sources"], list(pairs.sources))
    yield equal("references", raw["references"], list(pairs.targets))
    yield equal("shared n-grams", raw["overlap"], shared_ngrams(subject.split("train"), pairs))
    yield equal("learning curve", json.loads(str(raw["curve"])), subject.translator.curve)


def _passages(stored: Stored) -> Iterator[Quantity]:
    """What a language model predicts, and how well the frequency of tokens alone does."""
    raw, subject, part = stored.raw, stored.subject, stored.part
    yield equal(f"tokens, {part}", raw["tokens"], subject.tokens[: len(raw["tokens"])])
    if "frequency_loss" in raw:
        again = whole_thousandths(subject.frequency_loss)
        yield equal(f"loss by frequency, {part}", raw["frequency_loss"], again)
    if "removed" in raw:  # which heads went is not stored
        yield equal(f"uncut, {part}", raw["removed"] == 0, share_in(part) == 0)
        left = raw["parameters"][: 1 if raw["removed"] else 2]
        yield equal(f"parameters, {part}", left, [_size(subject.model)] * len(left))


_CHECKS: dict[str, tuple[Callable[[Stored], Iterator[Quantity]], ...]] = {
    "pruning_curve": (_labels, _importance, _orders, _means),
    "pruning_by_kind": (_importance, _orders, _means),
    "agreement": (_importance,),
    "precision": (_float32,),
    "best_heads": (_chosen,),
    "search": (_searched,),
    "speed": (_sizes,),
    "quality": (_texts,),
    "along_training": (_each_importance,),
    "which_first": (_labels, _compared_scores, _compared_orders, _gates, _losses_along),
    "scoring_examples": (_labels, _few_sentences, _losses_along),
    "stability": (_scores_by_text,),
    "head_roles": (_roles,),
    "recovery": (_labels, _removed),
    "language_curve": (_passages,),
    "language_heads": (_passages,),
    "language_recovery": (_passages,),
}
"""Measurement -> what is compared besides the outcomes of masks."""
