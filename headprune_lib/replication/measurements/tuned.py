"""Gates in place of masks along an order: what stays makes up for what is gone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from headprune_lib.mask_tuning import tune_mask
from headprune_lib.masking import HeadTensors
from headprune_lib.replication.engine import run_units
from headprune_lib.replication.measurements.compared import masks_along
from headprune_lib.replication.measurements.orders import Subject
from headprune_lib.replication.order_names import mask_key
from headprune_lib.replication.setups import TranslationSubject, forced_batches
from headprune_lib.replication.store import Arrays, Journal
from headprune_lib.selection import Head
from headprune_lib.utils import Batch

TUNING = 1
"""Bumped by hand when what gates are fitted to changes; tuned orders are then measured anew."""
_STORED = "gates "


def tuned(subject: Subject, masks: Sequence[HeadTensors], journal: Journal) -> list[HeadTensors]:
    """Gates for each mask, fitted on the text that heads are scored on; float32, as masks act.

    A mask that occurs twice is fitted once.
    """
    keys = [f"{subject.key} gates {TUNING} {mask_key(mask)}" for mask in masks]

    def measure(mask: HeadTensors) -> Arrays:
        gates = tune_mask(subject.model, mask, _scoring(subject))
        return {kind: values.float().numpy() for kind, values in gates.items()}

    units = run_units(
        {
            key: lambda mask=mask: measure(mask)
            for key, mask in dict(zip(keys, masks, strict=True)).items()
        },
        journal,
        f"gates, seed {subject.seed}",
    )
    return [
        {kind: torch.from_numpy(units[key][kind]) for kind in mask}
        for key, mask in zip(keys, masks, strict=True)
    ]


def _scoring(subject: Subject) -> Sequence[Batch]:
    if isinstance(subject, TranslationSubject):
        return forced_batches(subject, subject.split("score"))
    return subject.batches(subject.scoring).batches


def stored_gates(runs: Sequence[Sequence[HeadTensors]]) -> Arrays:
    """Gates of every step of every run, as a result holds them: (run, step, layer, head) a kind."""
    return {
        f"{_STORED}{kind}": np.stack(
            [np.stack([gates[kind].numpy() for gates in run]) for run in runs]
        )
        for kind in runs[0][0]
    }


def factors_along(
    subject: Subject, raw: Arrays, run: int, heads: list[Head], shares: tuple[float, ...]
) -> list[HeadTensors]:
    """What heads were multiplied by at the first shares of a run of a result: masks, or gates."""
    masks = masks_along(subject, heads, shares)
    if f"{_STORED}{next(iter(masks[0]))}" not in raw:
        return masks
    return [
        {kind: torch.from_numpy(raw[f"{_STORED}{kind}"][run, step]) for kind in mask}
        for step, mask in enumerate(masks)
    ]
