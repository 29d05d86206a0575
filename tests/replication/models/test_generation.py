"""Translations by drafts are those that ``generate`` makes under each mask."""

import numpy as np
import pytest
import torch
from tiny import build

from headprune_lib import head_mask, masked_heads, ones_mask
from headprune_lib.ablation import all_but_one_masks, one_head_masks
from headprune_lib.losses import cross_entropy
from headprune_lib.masking import masked_rows
from headprune_lib.replication.models import generation
from headprune_lib.replication.models.drafts import translations_under
from headprune_lib.replication.models.generation import generate, marks_of, searched_under
from headprune_lib.utils import teacher_forced

END, START = 2, 3  # as the model of these tests has them


@pytest.fixture(scope="module")
def drafts(model, sources):
    found = generate(model, sources)
    lengths = [len(row) for row in found]
    assert len(set(map(tuple, found))) > 5 and len(set(lengths)) > 5
    return found


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 7])
def test_every_cut_translates_as_masked_generation_does(model, sources, drafts, every):
    masks = [*one_head_masks(model).values(), *all_but_one_masks(model).values()][::every]
    changed = 0
    for mask, cut in zip(masks, translations_under(model, sources, drafts, masks), strict=True):
        with masked_heads(model, mask):
            plain = generate(model, sources, batch_size=3)
        assert cut.ids == plain
        changed += sum(new != old for new, old in zip(plain, drafts, strict=True))
    assert 0 < changed < len(masks) * len(sources)  # both branches were taken


def test_no_cut_gives_the_drafts_and_their_log_probability(model, sources, drafts):
    (found,) = translations_under(model, sources, drafts, [ones_mask(model)])
    assert found.ids == drafts
    for source, draft, loss in zip(sources, drafts, found.draft_loss, strict=True):
        with torch.no_grad():
            logits = model(
                input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([[START, *draft]])
            ).logits[0]
        own = torch.nn.functional.cross_entropy(
            logits, torch.tensor([*draft, END]), reduction="sum"
        )
        assert loss == pytest.approx(own.item())


def test_each_row_has_its_own_mask_in_beam_search_too(sources):
    model = build("marian")
    masks = [
        ones_mask(model),
        head_mask(model, [("enc-enc", 0, 1), ("dec-dec", 1, 2)]),
        head_mask(model, [("enc-dec", 0, 3)]),
    ]
    ids = torch.randint(4, 30, (5, 6), generator=torch.Generator().manual_seed(2))
    rows = [2, 0, 1, 1, 2]
    for beams in (1, 3):
        with masked_rows(model, masks, rows):
            together = model.generate(input_ids=ids, num_beams=beams, max_new_tokens=8)
        for i, row in enumerate(rows):
            with masked_heads(model, masks[row]):
                alone = model.generate(input_ids=ids[i : i + 1], num_beams=beams, max_new_tokens=8)
            end = alone.shape[1]
            assert torch.equal(together[i, :end], alone[0])
    with (
        pytest.raises(ValueError, match="a batch of 5 rows, but masks for 2"),
        masked_rows(model, masks[1:], [0, 1]),
    ):
        model(input_ids=ids, decoder_input_ids=ids)


@pytest.mark.parametrize("at_once", [256, 11])
def test_searches_are_those_of_generate_under_each_mask(model, sources, monkeypatch, at_once):
    monkeypatch.setattr(generation, "_SEARCHED_TOGETHER", at_once)
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
