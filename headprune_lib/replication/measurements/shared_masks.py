"""Evaluate masks once, whichever order of removal cut the heads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from headprune_lib.masking import HeadTensors
from headprune_lib.replication.data import Texts
from headprune_lib.replication.measurements.references import reference_losses
from headprune_lib.replication.order_names import mask_key
from headprune_lib.replication.setups import EncoderSubject, TranslationSubject
from headprune_lib.replication.store import Arrays, Journal

Subject = EncoderSubject | TranslationSubject


def losses_under(
    subject: Subject, masks: Sequence[HeadTensors], texts: Texts, journal: Journal
) -> np.ndarray:
    """(M, n) in nats: of the right answer, or of the reference, in the mean over its pieces."""
    named, rows = _distinct(masks, texts)
    if isinstance(subject, EncoderSubject):
        return _answers(subject, named, texts, journal)["loss"][rows]
    return _references(subject, named, texts, journal)[rows]


def outcomes_under(
    subject: Subject, masks: Sequence[HeadTensors], texts: Texts, journal: Journal
) -> Arrays:
    """The loss as in :func:`losses_under`, and what the score is made of.

    Returns:
        ``loss`` (M, n), and ``correct`` (M, n) of an encoder, or of a translator ``counts``
        (M, n, 5), packed, with ``reference_lengths`` (n,).
    """
    named, rows = _distinct(masks, texts)
    if isinstance(subject, EncoderSubject):
        found = _answers(subject, named, texts, journal)
        return {name: values[rows] for name, values in found.items()}
    loss, made = (each(subject, named, texts, journal) for each in (_references, _translations))
    return {**made, "loss": loss[rows], "counts": made["counts"][rows]}


def _distinct(
    masks: Sequence[HeadTensors], texts: Texts
) -> tuple[dict[str, HeadTensors], list[int]]:
    """The masks that differ, by what the journal knows them and the texts by, and each one's place."""
    names = [f"{texts.sha256[:8]} {mask_key(mask)}" for mask in masks]
    named = dict(zip(names, masks, strict=True))
    return named, [list(named).index(name) for name in names]


def _answers(
    subject: EncoderSubject, named: Mapping[str, HeadTensors], texts: Texts, journal: Journal
) -> Arrays:
    return subject.under(named, texts, journal, f"masks, seed {subject.seed}")


def _references(
    subject: TranslationSubject, named: Mapping[str, HeadTensors], pairs: Texts, journal: Journal
) -> np.ndarray:
    found = reference_losses(subject, pairs, named, journal)
    return found["loss"] / found["pieces"]


def _translations(
    subject: TranslationSubject,
    named: Mapping[str, HeadTensors],
    pairs: Texts,
    journal: Journal,
) -> Arrays:
    """A mask is a unit; those that are missing share the passes of one sweep."""
    keys = {name: f"{subject.key} translated {name}" for name in named}
    missing = {name: mask for name, mask in named.items() if not journal.done(keys[name])}
    new: dict[str, Arrays] = {}
    if missing:
        digest = hashlib.sha256(" ".join(missing).encode()).hexdigest()[:8]
        raw = subject.sweep(pairs, list(missing.values()), journal, f"masks {digest}")
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
