"""Measure the teacher-forced loss of references under masks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from headprune_lib.batching import NO_LABEL, without_labels
from headprune_lib.heads import HeadTensors, full_mask
from headprune_lib.kernels import fast_linears
from headprune_lib.losses import cross_entropy
from headprune_lib.masking import masked_heads
from headprune_lib.replication.data.verses import Pairs
from headprune_lib.replication.engine import run_units
from headprune_lib.replication.stats.losses import MILLINAT, coarse
from headprune_lib.replication.store import Arrays, Journal
from headprune_lib.replication.translation.subject import (
    TranslationSubject,
    forced_batches,
    forced_groups,
)
from headprune_lib.running import on_device


def reference_losses(
    subject: TranslationSubject,
    pairs: Pairs,
    masks: Mapping[str, HeadTensors],
    journal: Journal,
) -> Arrays:
    """The loss of every reference under every mask, whose name is that of a unit of the journal.

    Returns:
        ``loss`` (M, n), the sum over a reference's pieces in nats, and ``pieces`` (n,), both in
        the pairs' own order.
    """
    device = next(subject.model.parameters()).device
    batches = [on_device(batch, device) for batch in forced_batches(subject, pairs)]
    back = np.argsort(np.concatenate(forced_groups(subject, pairs)))

    def measure(mask: HeadTensors) -> Arrays:
        with torch.inference_mode(), masked_heads(subject.model, mask), fast_linears(subject.model):
            losses = [
                cross_entropy(subject.model(**without_labels(batch)), batch) for batch in batches
            ]
        return {"loss": np.concatenate([loss.cpu().numpy() for loss in losses])[back]}

    units = run_units(
        {
            f"{subject.key} loss {name}": lambda mask=mask: measure(mask)
            for name, mask in masks.items()
        },
        journal,
        "loss of the references",
    ).values()
    pieces = np.concatenate(
        [(batch["labels"] != NO_LABEL).sum(1).cpu().numpy() for batch in batches]
    )
    return {
        "loss": np.stack([unit["loss"] for unit in units]).astype(float),
        "pieces": pieces[back],
    }


def rounded_losses(
    subject: TranslationSubject,
    pairs: Pairs,
    masks: Mapping[str, HeadTensors],
    journal: Journal,
) -> Arrays:
    """The teacher-forced loss of every reference, uncut and under every mask.

    Returns:
        ``reference_loss_uncut`` (n,) and ``reference_loss_change`` (M, n) in thousandths of a nat,
        the change to five binary digits; ``reference_pieces`` (n,); all in the pairs' own order.
    """
    every = {"uncut": full_mask(subject.model), **masks}
    found = reference_losses(subject, pairs, every, journal)
    loss = np.rint(MILLINAT * found["loss"])
    return {
        "reference_loss_uncut": loss[0].astype(np.int32),
        "reference_loss_change": np.rint(coarse(loss[1:] - loss[0])).astype(np.int32),
        "reference_pieces": found["pieces"].astype(np.int16),
    }
