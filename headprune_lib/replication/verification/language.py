"""Find the loss of a language model under a drawn mask again."""

from __future__ import annotations

import random

import numpy as np

from headprune_lib import head_mask
from headprune_lib.masking import Head
from headprune_lib.replication.metrics import MILLINAT
from headprune_lib.replication.models.pretrained import LANGUAGE_MODELS
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.setups import LanguageSubject
from headprune_lib.replication.store import Result
from headprune_lib.replication.store.heads import heads_in
from headprune_lib.replication.verification.quantities import Quantity
from headprune_lib.replication.verification.subjects import NotAtHand

PASSAGES = 8
"""How many of the texts are taken: a passage takes seconds."""
NATS = 0.02
"""How far the loss of a passage may be off: float32 on another processor."""


def drawn_mask(result: Result, generator: random.Random) -> Quantity:
    """The losses of the first passages under one drawn mask of a stored result.

    Raises:
        NotAtHand: the model's file was not fetched.
    """
    model = LANGUAGE_MODELS[result.model]
    if not model.at_hand:
        raise NotAtHand(f"{model.title} was not fetched here")
    profile = load_profile(result.profile, language_task=result.task, language_model=result.model)
    subject = LanguageSubject.of(profile, result.task)
    subject.test = subject.test[:PASSAGES]
    heads, stored = _drawn(result, generator)
    found = subject.losses(subject.model, head_mask(subject.model, heads))
    off = float(np.abs(found - stored / MILLINAT).max())
    return Quantity(
        f"losses of {PASSAGES} passages without {len(heads)} heads",
        f"mean {stored.mean() / MILLINAT:.3f} nats",
        f"mean {found.mean():.3f} nats; off by up to {off:.4f}",
        f"{NATS} nats each",
        off <= NATS,
    )


def _drawn(result: Result, generator: random.Random) -> tuple[list[Head], np.ndarray]:
    """Heads that a mask cuts, and the stored losses of the first passages under it."""
    raw = result.parts[generator.choice(sorted(result.parts))].raw
    if "order" in raw:
        run = generator.randrange(len(raw["order"]))
        step = generator.randrange(len(raw["shares"]) - 1)
        heads = heads_in(raw["order"][run])[: raw["gone"][run, step]]
        return heads, (raw["loss_uncut"] + raw["loss_change"][run, step])[:PASSAGES]
    if "heads" in raw:
        place = generator.randrange(len(raw["heads"]))
        heads = heads_in(raw["heads"][place : place + 1])
        return heads, (raw["loss_uncut"] + raw["loss_change"][place])[:PASSAGES]
    return [], result.parts["removed 0%"].raw["loss_pruned"][:PASSAGES]
