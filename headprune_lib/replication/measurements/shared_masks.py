"""Evaluate masks once, whichever order of removal cut the heads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from headprune_lib.heads import HeadTensors
from headprune_lib.replication.data import Examples
from headprune_lib.replication.data.parallel import Pairs
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.measurements.references import reference_losses
from headprune_lib.replication.order_names import mask_key
from headprune_lib.replication.store import Arrays, Journal
from headprune_lib.replication.translation.subject import TranslationSubject

Subject = EncoderSubject | TranslationSubject
Texts = Examples | Pairs


def losses_under(
    subject: Subject, masks: Sequence[HeadTensors], texts: Texts, journal: Journal
) -> np.ndarray:
    """(M, n) in nats: of the right answer, or of the reference, in the mean over its pieces."""
    return _by_mask(subject, masks, texts, journal, _losses)["loss"]


def outcomes_under(
    subject: Subject, masks: Sequence[HeadTensors], texts: Texts, journal: Journal
) -> Arrays:
    """The loss as in :func:`losses_under`, and what the score is made of.

    Returns:
        ``loss`` (M, n), and ``correct`` (M, n) of an encoder, or of a translator ``counts``
        (M, n, 5), packed, with ``reference_lengths`` (n,).
    """
    return _by_mask(subject, masks, texts, journal, _outcomes)


def _by_mask(subject, masks, texts, journal, evaluate) -> Arrays:
    named = {mask_key(mask): mask for mask in masks}
    found = evaluate(subject, named, texts, journal)
    rows = [list(named).index(mask_key(mask)) for mask in masks]
    return {
        name: values if name == "reference_lengths" else values[rows]
        for name, values in found.items()
    }


def _losses(
    subject: Subject, named: Mapping[str, HeadTensors], texts: Texts, journal: Journal
) -> Arrays:
    if isinstance(subject, EncoderSubject):
        return _answers(subject, named, texts, journal)
    found = reference_losses(subject, texts, _renamed(named, texts), journal)
    return {"loss": found["loss"] / found["pieces"]}


def _outcomes(
    subject: Subject, named: Mapping[str, HeadTensors], texts: Texts, journal: Journal
) -> Arrays:
    found = _losses(subject, named, texts, journal)
    if isinstance(subject, EncoderSubject):
        return found
    return found | _translations(subject, _renamed(named, texts), texts, journal)


def _answers(
    subject: EncoderSubject, named: Mapping[str, HeadTensors], texts: Examples, journal: Journal
) -> Arrays:
    return subject.under(_renamed(named, texts), texts, journal, f"masks, seed {subject.seed}")


def _renamed(named: Mapping[str, HeadTensors], texts: Texts) -> dict[str, HeadTensors]:
    """With the texts in the names, by which the journal knows what a mask was tried on."""
    parts = texts.sources if isinstance(texts, Pairs) else texts.texts
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()[:8]
    return {f"{digest} {name}": mask for name, mask in named.items()}


def _translations(
    subject: TranslationSubject,
    named: Mapping[str, HeadTensors],
    pairs: Pairs,
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
