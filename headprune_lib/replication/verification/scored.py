"""What results hold of scores and of attention: on few sentences, on other text, head by head."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator

import torch

from headprune_lib.criteria.attention import means_over_queries
from headprune_lib.replication.data import TASKS
from headprune_lib.replication.engine import run_units
from headprune_lib.replication.measurements.head_roles import statistics_of
from headprune_lib.replication.measurements.scores import (
    PLAIN,
    drawn,
    effect_of,
    n_pool,
    scored_once,
    scores_on,
)
from headprune_lib.replication.measurements.which_first import tested
from headprune_lib.replication.models.pretrained import load_tokenizer
from headprune_lib.replication.order_names import parse_part, read_name
from headprune_lib.replication.setups import EncoderSubject
from headprune_lib.replication.store import Arrays, Journal, Result
from headprune_lib.replication.store.heads import heads_array
from headprune_lib.replication.verification.followed import losses_along
from headprune_lib.replication.verification.orders import beside, own_outcomes, own_parts
from headprune_lib.replication.verification.quantities import Quantity, equal, same_scores
from headprune_lib.scoring import normalize_l2
from headprune_lib.selection import rank_heads


def few_sentences(
    result: Result, subject: EncoderSubject, journal: Journal, parts: Collection[str]
) -> Iterator[Quantity]:
    """Draws, the scores on the fewest sentences, every order, and the losses along it."""
    profile = dataclasses.replace(subject.profile, n_scoring=n_pool(subject.profile))
    texts = [*drawn(dataclasses.replace(subject, profile=profile).scoring)]
    for name in parts:
        raw, named = result.parts[name].raw, scored_once(name)
        yield equal(f"labels, {name}", raw["labels"], tested(subject).labels)
        yield equal(f"sentences, {name}", raw["n"], [n for n, _, _ in texts])
        yield equal(f"draws, {name}", raw["draw"], [draw for _, draw, _ in texts])
        for row, (n, draw, sentences) in enumerate(texts):
            order = rank_heads({"self": torch.from_numpy(raw["scores"][row])})
            follows = heads_array(order[:: -1 if named.reverse else 1])
            yield equal(f"order of {name}, {n} sentences", raw["order"][row], follows)
            if n == texts[0][0]:
                found = scores_on(subject, named, sentences, journal)["self"].numpy()
                said = f"{name}, {n} sentences, draw {draw + 1}"
                yield same_scores(said, raw["scores"][row], found)
        yield from losses_along(name, raw, subject, journal)


def other_text(
    result: Result, subject: EncoderSubject, journal: Journal, asked: Collection[str]
) -> Iterator[Quantity]:
    """Scores on the own text of what other results hold too, those by entropy on all text, and the
    effects; importance normalised must follow from what is not.
    """
    parts = {parse_part(name).curve: part.raw for name, part in own_parts(result, subject).items()}
    profile = subject.profile
    for order, raw in ((parse_part(name).curve, result.parts[name].raw) for name in asked):
        if "effect" in raw:
            stored = effect_of(beside(result, subject, "one_head"))
            yield equal(f"effects, {order}", raw["effect"], stored)
        for text in map(str, raw["texts"]):
            said, scores = f"{order}, {text}", raw[f"scores {text}"]
            if order == "importance" and PLAIN in parts:
                plain = {"self": torch.from_numpy(parts[PLAIN][f"scores {text}"])}
                yield same_scores(said, scores, normalize_l2(plain)["self"].numpy())
            elif text == profile.task and order in (PLAIN, "entropy"):
                found = (  # which other results of the model hold as well
                    subject.importance(journal, normalize=None)
                    if order == PLAIN
                    else subject.scores(journal, read_name(order))
                )
                yield same_scores(said, scores, found["self"].numpy())
            elif order == "entropy":
                sentences = TASKS[text].split("test", profile.data).first(profile.n_domain)
                found = scores_on(subject, read_name(order), sentences, journal)
                yield same_scores(said, scores, found["self"].numpy())


def roles(
    result: Result, subject: EncoderSubject, journal: Journal, _parts: Collection[str]
) -> Iterator[Quantity]:
    """What every head looks at, and importance."""
    special = load_tokenizer(subject.profile.model).all_special_ids
    wanted = statistics_of(special)

    def measure() -> Arrays:
        eager = EncoderSubject.of(subject.profile, subject.seed, "eager")
        batches = eager.batches(eager.scoring).batches
        means = means_over_queries(eager.model, batches, [*wanted.values()])
        return {name: one["self"].numpy() for name, one in zip(wanted, means, strict=True)}

    (found,) = run_units(
        {f"{subject.key} what heads look at": measure}, journal, "what heads look at"
    ).values()
    found = {**found, "importance": subject.importance(journal, normalize=None)["self"].numpy()}
    for name, values in own_outcomes(result, subject).items():
        # of made-up text without special tokens no head has weight on one
        if values.any():
            yield same_scores(name, values, found[name])
        else:
            yield equal(name, values, found[name])
