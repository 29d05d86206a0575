"""Measure the teacher-forced loss of references under masks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from headprune_lib.replication.data import Texts
from headprune_lib.replication.lazy import losses, masking, setups, torch, utils
from headprune_lib.replication.metrics import MILLINAT, coarse
from headprune_lib.replication.store import Arrays, Journal


def reference_losses(
    subject: setups.TranslationSubject,
    pairs: Texts,
    masks: Mapping[str, masking.HeadTensors],
    journal: Journal,
) -> Arrays:
    """The loss of every reference under every mask, whose name is that of a unit of the journal.

    Returns:
        ``loss`` (M, n), the sum over a reference's pieces in nats, and ``pieces`` (n,), both in
        the pairs' own order.
    """
    forced = _Forced(subject, pairs)

    def measure(mask: masking.HeadTensors) -> Arrays:
        with masking.masked_heads(subject.model, mask):
            return {"loss": forced.losses()}

    units = {f"loss {name}": partial(measure, mask) for name, mask in masks.items()}
    done = subject.compute(units, journal, "loss of the references")
    loss = np.stack([unit["loss"] for unit in done]).astype(float)
    return {"loss": loss, "pieces": forced.pieces()}


def piece_losses(subject: setups.TranslationSubject, pairs: Texts) -> np.ndarray:
    """(n,) the loss of every reference in the mean over its pieces, in nats, as the model is.

    Nothing is kept in a journal, which knows models by the weights they were loaded with.
    """
    forced = _Forced(subject, pairs)
    return forced.losses().astype(float) / forced.pieces()


class _Forced:
    """References in teacher-forced batches on the model's device."""

    def __init__(self, subject: setups.TranslationSubject, pairs: Texts) -> None:
        self.model = subject.model
        device = next(self.model.parameters()).device
        self.batches = [
            utils.to_device(batch, device) for batch in setups.forced_batches(subject, pairs)
        ]
        self.back = np.argsort(np.concatenate(setups.forced_groups(subject, pairs)))

    def losses(self) -> np.ndarray:
        """(n,) the sum over each reference's pieces in nats, in the pairs' own order."""
        with torch.inference_mode():
            per_batch = [
                losses.cross_entropy(self.model(**utils.without_labels(batch)), batch)
                for batch in self.batches
            ]
        return np.concatenate([loss.cpu().numpy() for loss in per_batch])[self.back]

    def pieces(self) -> np.ndarray:
        """(n,) pieces of each reference."""
        counted = [
            (batch["labels"] != utils.NO_LABEL).sum(1).cpu().numpy() for batch in self.batches
        ]
        return np.concatenate(counted)[self.back]


def rounded_losses(
    subject: setups.TranslationSubject,
    pairs: Texts,
    masks: Mapping[str, masking.HeadTensors],
    journal: Journal,
) -> Arrays:
    """The teacher-forced loss of every reference, uncut and under every mask.

    Returns:
        ``reference_loss_uncut`` (n,) and ``reference_loss_change`` (M, n) in thousandths of a nat,
        the change to five binary digits; ``reference_pieces`` (n,); all in the pairs' own order.
    """
    every = {"uncut": masking.ones_mask(subject.model), **masks}
    measured = reference_losses(subject, pairs, every, journal)
    loss = np.rint(MILLINAT * measured["loss"])
    return {
        "reference_loss_uncut": loss[0].astype(np.int32),
        "reference_loss_change": np.rint(coarse(loss[1:] - loss[0])).astype(np.int32),
        "reference_pieces": measured["pieces"].astype(np.int16),
    }
