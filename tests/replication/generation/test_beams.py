"""A search under many masks at once finds what ``generate`` finds under each of them."""

import numpy as np
import pytest
import torch

from headprune_lib import masked_heads, ones_mask
from headprune_lib.ablation import one_head_masks
from headprune_lib.losses import cross_entropy
from headprune_lib.replication.generation import beams
from headprune_lib.replication.generation.beams import searched_under
from headprune_lib.replication.generation.greedy import generate, marks_of
from headprune_lib.utils import teacher_forced


@pytest.mark.parametrize("at_once", [256, 11])
def test_searches_are_those_of_generate_under_each_mask(model, sources, monkeypatch, at_once):
    monkeypatch.setattr(beams, "_SEARCHED_TOGETHER", at_once)
    own = sorted(sources, key=len)[:4]
    masks = [ones_mask(model), *list(one_head_masks(model).values())[::5]]
    drafts = generate(model, own, beams=3, early_stopping=True)
    found = searched_under(model, own, drafts, masks, beams=3)
    marks = marks_of(model)
    batch = teacher_forced(own, [[*d, marks.end] for d in drafts], marks.pad, marks.start)
    for mask, one in zip(masks, found, strict=True):
        with masked_heads(model, mask), torch.inference_mode():
            assert one.ids == generate(model, own, beams=3, early_stopping=True)
            losses = cross_entropy(model(**{k: batch[k] for k in batch if k != "labels"}), batch)
        np.testing.assert_allclose(one.draft_loss, losses.numpy(), rtol=1e-9)
    assert found[0].ids == drafts and any(one.ids != drafts for one in found[1:])
