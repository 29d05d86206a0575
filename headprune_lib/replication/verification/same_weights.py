"""Find drawn cells of a result again, on the very weights that it was measured on."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import torch

from headprune_lib.losses import cross_entropy
from headprune_lib.masking import HeadTensors, masked_heads
from headprune_lib.replication.data import Texts
from headprune_lib.replication.models.encoders import evaluate
from headprune_lib.replication.models.generation import generate, marks_of
from headprune_lib.replication.setups import EncoderSubject, TranslationSubject
from headprune_lib.replication.store import Arrays, Journal, Result
from headprune_lib.replication.verification.further import further
from headprune_lib.replication.verification.orders import Subject, own_parts
from headprune_lib.replication.verification.quantities import (
    Quantity,
    same_answers,
    same_translations,
)
from headprune_lib.replication.verification.sheets import sheets
from headprune_lib.replication.verification.tried import Sheet
from headprune_lib.utils import Batch, teacher_forced, without_labels

EXAMPLES, VERSES = 300, 32
"""How many texts of a cell are drawn, at most."""


def find_again(
    result: Result,
    subject: Subject,
    journal: Journal,
    generator: random.Random,
    n_cells: int = 2,
) -> Iterator[Quantity]:
    """What a model does under drawn masks on drawn texts, beside what is stored of it.

    Args:
        subject: the model that the result was measured on.
        journal: keeps importance, which several results of a model share.
        n_cells: masks to draw, from as many of the result's sheets as there are.
    """
    for sheet, rows in _drawn(sheets(result, subject), generator, n_cells):
        n, most = len(sheet.texts), EXAMPLES if isinstance(subject, EncoderSubject) else VERSES
        members = sorted(generator.sample(range(n), min(most, n)))
        texts = taken(sheet.texts, members)
        again = _answered if isinstance(subject, EncoderSubject) else _translated
        stored = [
            {what: values[row, members] for what, values in sheet.outcomes.items()} for row in rows
        ]
        found = again(subject, sheet, rows, texts)
        for row, one, other in zip(rows, stored, found, strict=True):
            name = sheet.rows[row][0] + (f", beam {sheet.beams}" if sheet.beams > 1 else "")
            if isinstance(subject, EncoderSubject):
                yield same_answers(name, one, other)
            else:
                yield same_translations(name, one, other, n)
    yield from further(result, subject, journal, [*own_parts(result, subject)])


def _drawn(
    found: list[Sheet], generator: random.Random, n_cells: int
) -> list[tuple[Sheet, list[int]]]:
    """Rows of sheets, from as many sheets as there are, none twice."""
    shuffled = generator.sample(found, len(found))
    orders = [generator.sample(range(len(sheet.rows)), len(sheet.rows)) for sheet in shuffled]
    turns = sorted((turn, place) for place, rows in enumerate(orders) for turn in range(len(rows)))[
        :n_cells
    ]
    taken_rows = [sum(place == i for _, place in turns) for i in range(len(shuffled))]
    return [
        (sheet, rows[:n]) for sheet, rows, n in zip(shuffled, orders, taken_rows, strict=True) if n
    ]


def taken(texts: Texts, members: list[int]) -> Texts:
    """The texts of the given numbers."""
    return texts.rows(members)


def _answered(
    subject: EncoderSubject, sheet: Sheet, rows: list[int], texts: Texts
) -> Iterator[Arrays]:
    """``correct`` and ``loss`` (n,) under each mask, by plain masked passes."""
    prepared = subject.batches(texts)
    for row in rows:
        yield evaluate(subject.model, prepared, sheet.rows[row][1])


def _translated(
    subject: TranslationSubject, sheet: Sheet, rows: list[int], texts: Texts
) -> Iterator[Arrays]:
    """``counts`` (n, 10) of translations under each mask, by plain masked decoding.

    With ``draft_loss`` (n,), nats of the unmasked model's translation, where the sheet has it.
    """
    model, batch = subject.model, None
    for row in rows:
        mask = sheet.rows[row][1]
        found = {"counts": counts_under(subject, texts, mask, sheet.beams)}
        if "draft_loss" in sheet.outcomes:
            batch = batch or _drafts(subject, texts)
            with torch.inference_mode(), masked_heads(model, mask):
                losses = cross_entropy(model(**without_labels(batch)), batch)
            found["draft_loss"] = losses.double().numpy()
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
    sources = subject.translator.encode(pairs.sources)
    beams = subject.profile.beams
    drafts = generate(subject.model, sources, beams=beams, early_stopping=beams > 1)
    marks = marks_of(subject.model)
    ended = [[*draft, marks.end] for draft in drafts]
    return teacher_forced(sources, ended, marks.pad, marks.start)
