"""Find drawn outcomes of a result again, on the very weights that it was measured on."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from headprune_lib.losses import cross_entropy
from headprune_lib.masking import HeadTensors, masked_heads
from headprune_lib.replication.data import Texts
from headprune_lib.replication.measurements.removal import losses_under
from headprune_lib.replication.models.encoders import evaluate
from headprune_lib.replication.models.generation import generate, marks_of
from headprune_lib.replication.setups import EncoderSubject, LanguageSubject, TranslationSubject
from headprune_lib.replication.store import Arrays, Journal, Result
from headprune_lib.replication.verification.follows import follows
from headprune_lib.replication.verification.outcomes import AnyTexts, Rows, Subject, rows_in
from headprune_lib.replication.verification.quantities import Quantity, same_outcomes
from headprune_lib.utils import Batch, teacher_forced, without_labels

CELLS = 4
"""Masks that are drawn of each training of a result."""
MOST = {EncoderSubject: 300, TranslationSubject: 32, LanguageSubject: 8}
"""How many of the texts are drawn, at most: a passage takes seconds."""


def find_again(
    result: Result, subject: Subject, journal: Journal, seed: int, n_cells: int = CELLS
) -> Iterator[Quantity]:
    """What a model does under drawn masks on drawn texts, beside what is stored of it.

    Args:
        subject: the model that the result was measured on.
        journal: keeps importance, which several results of a model share.
        seed: what masks and texts are drawn with.
        n_cells: masks to draw, from as many of the result's sets of texts and parts as there are.
    """
    generator = random.Random(seed)
    for rows, chosen in _drawn(rows_in(result, subject), generator, n_cells):
        n = len(rows.texts)
        members = sorted(generator.sample(range(n), min(MOST[type(subject)], n)))
        again = computed_again(subject, rows, chosen, members, journal)
        for row, found in zip(chosen, again, strict=True):
            stored, slack = (
                {what: cells[row, members] for what, cells in each.items()}
                for each in (rows.outcomes, rows.slack)
            )
            name = rows.masks[row][0] + (f", beam {rows.beams}" if rows.beams > 1 else "")
            yield from same_outcomes(name, stored, slack, found, n)
    yield from follows(result, subject, journal)


def _drawn(
    found: list[Rows], generator: random.Random, n_cells: int
) -> list[tuple[Rows, list[int]]]:
    """Masks of all rows in turn, none twice, so that every set of texts has its own first."""
    shuffled = generator.sample(found, len(found))
    orders = [generator.sample(range(len(rows.masks)), len(rows.masks)) for rows in shuffled]
    turns = sorted(
        (turn, place) for place, order in enumerate(orders) for turn in range(len(order))
    )
    places = [place for _, place in turns[:n_cells]]
    return [
        (rows, order[: places.count(place)])
        for place, (rows, order) in enumerate(zip(shuffled, orders, strict=True))
        if place in places
    ]


def members_of(texts: AnyTexts, members: Sequence[int]) -> AnyTexts:
    """The texts of the given numbers."""
    if isinstance(texts, list):
        return [texts[i] for i in members]
    sides = (getattr(texts, field.name) for field in dataclasses.fields(texts))
    return type(texts)(*(side and tuple(side[i] for i in members) for side in sides))


def computed_again(
    subject: Subject, rows: Rows, chosen: Sequence[int], members: Sequence[int], journal: Journal
) -> Iterator[Arrays]:
    """Outcomes (text, ...) of some rows on some of their texts, by plain masked passes."""
    texts, masks = members_of(rows.texts, members), [rows.masks[row][1] for row in chosen]
    if isinstance(subject, LanguageSubject):
        some = dataclasses.replace(subject)
        some.test = texts
        yield from ({"loss": some.losses(subject.model, mask)} for mask in masks)
    elif isinstance(subject, EncoderSubject):
        prepared = subject.batches(texts)
        yield from (evaluate(subject.model, prepared, mask) for mask in masks)
    else:
        drafts = _drafts(subject, texts) if "draft_loss" in rows.outcomes else {}
        for mask in masks:
            found = {"counts": counts_under(subject, texts, mask, rows.beams)}
            if drafts:
                with torch.inference_mode(), masked_heads(subject.model, mask):
                    losses = cross_entropy(subject.model(**without_labels(drafts)), drafts)
                found["draft_loss"] = losses.double().numpy()
            if "reference_loss" in rows.outcomes:
                (found["reference_loss"],) = losses_under(subject, [mask], texts, journal)
            yield found


def counts_under(
    subject: TranslationSubject, pairs: Texts, mask: HeadTensors, beams: int
) -> np.ndarray:
    """Counts (n, 10) of translations under a mask."""
    model, sources, own = subject.model, subject.translator.encode(pairs.sources), subject.profile
    with masked_heads(model, mask):
        made = generate(model, sources, beams=max(beams, own.beams), early_stopping=own.beams > 1)
    return subject.translator.pieces.counts(made, pairs.targets)[""]


def _drafts(subject: TranslationSubject, pairs: Texts) -> Batch:
    """The unmasked model's translations as references to score."""
    sources, marks = subject.translator.encode(pairs.sources), marks_of(subject.model)
    beams = subject.profile.beams
    drafts = generate(subject.model, sources, beams=beams, early_stopping=beams > 1)
    ended = [[*draft, marks.end] for draft in drafts]
    return teacher_forced(sources, ended, marks.pad, marks.start)
