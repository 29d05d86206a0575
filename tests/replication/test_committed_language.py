"""The committed losses of a language model come from its file: drawn masks are found again.

Where the file was not fetched (by ``headprune reproduce language_curve``) that is said, and left.
"""

import random

import numpy as np
import pytest

from headprune_lib import cut_heads
from headprune_lib.replication import store
from headprune_lib.replication.language.models import LANGUAGE_MODELS
from headprune_lib.replication.language.subject import LanguageSubject
from headprune_lib.replication.measurements import half_of
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.store.heads import heads_in

KEYS = [key for key in store.find() if half_of(key) == "language"]
FEW = 8  # passages
CLOSE = 0.02  # nats a passage: float32 on another processor


def losses(subject, heads):
    """Of the first passages, without some heads."""
    subject.test = subject.test[:FEW]
    return subject.losses(subject.model, cut_heads(subject.model, heads))


def stored(result, draw):
    """Heads that a mask cuts, and what is stored of the first passages under it."""
    name = draw.choice(sorted(result.parts))
    raw = result.parts[name].raw
    if "order" in raw:
        run, step = draw.randrange(len(raw["order"])), draw.randrange(len(raw["shares"]) - 1)
        heads = heads_in(raw["order"][run])[: raw["gone"][run, step]]
        return heads, (raw["loss_uncut"] + raw["loss_change"][run, step])[:FEW]
    if "heads" in raw:
        place = draw.randrange(len(raw["heads"]))
        heads = heads_in(raw["heads"][place : place + 1])
        return heads, (raw["loss_uncut"] + raw["loss_change"][place])[:FEW]
    return [], result.parts["removed 0%"].raw["loss_pruned"][:FEW]


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS, ids="-".join)
def test_a_drawn_mask_is_found_again(key, drawn_seed):
    if not LANGUAGE_MODELS[key.model].at_hand:
        pytest.skip(f"{LANGUAGE_MODELS[key.model].title} was not fetched here")
    result = store.load(key)
    profile = load_profile(result.profile, language_task=key.task, language_model=key.model)
    heads, expected = stored(result, random.Random(drawn_seed))
    found = losses(LanguageSubject.of(profile, key.task), heads)
    np.testing.assert_allclose(found, expected / 1000, rtol=0, atol=CLOSE)


def test_the_stored_results_are_of_the_file_that_is_registered():
    for key in KEYS:
        for part in store.load(key).parts.values():
            assert part.signature["weights"] == LANGUAGE_MODELS[key.model].checksums
