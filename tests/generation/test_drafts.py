"""Translations by drafts are those that ``generate`` makes under each mask."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import build

from headprune_lib import cut_heads, find_heads, full_mask, masked_heads
from headprune_lib.ablation import all_but_one_masks, one_head_masks
from headprune_lib.generation.drafts import mend, translations_under
from headprune_lib.generation.greedy import Marks, generate, length_limit, marks_of, until_end
from headprune_lib.masking import masked_rows

PAD, END, START = 0, 2, 3  # as the models of these tests have them
MARKS = Marks(pad=PAD, end=END, start=START)


@pytest.fixture(scope="module")
def drafts(model, sources):
    found = generate(model, sources)
    lengths = [len(row) for row in found]
    assert len(set(map(tuple, found))) > 5 and len(set(lengths)) > 5
    return found


@pytest.mark.slow
def test_every_cut_translates_as_masked_generation_does(model, sources, drafts):
    masks = [*one_head_masks(model).values(), *all_but_one_masks(model).values()]
    changed = 0
    for mask, found in zip(masks, translations_under(model, sources, drafts, masks), strict=True):
        with masked_heads(model, mask):
            plain = generate(model, sources, batch_size=3)
        assert found.ids == plain
        changed += sum(new != old for new, old in zip(plain, drafts, strict=True))
    assert 0 < changed < len(masks) * len(sources)  # both branches were taken


def test_no_cut_gives_the_drafts_and_their_log_probability(model, sources, drafts):
    (found,) = translations_under(model, sources, drafts, [full_mask(model)])
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


def test_drafts_of_another_model_change_nothing(model, sources, drafts):
    mask = cut_heads(model, [("enc-dec", 1, 2), ("enc-enc", 0, 1)])
    shuffled = drafts[1:] + drafts[:1]
    (right,) = translations_under(model, sources, drafts, [mask])
    (wrong,) = translations_under(model, sources, shuffled, [mask])
    assert right.ids == wrong.ids


def test_each_row_has_its_own_mask_in_beam_search_too(sources):
    model = build("marian")
    masks = [
        full_mask(model),
        cut_heads(model, [("enc-enc", 0, 1), ("dec-dec", 1, 2)]),
        cut_heads(model, [("enc-dec", 0, 3)]),
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


@given(st.lists(st.integers(3, 9), max_size=8), st.data())
def test_mend_keeps_what_agrees(draft, data):
    chosen = data.draw(
        st.lists(st.integers(3, 9) | st.just(END), min_size=len(draft) + 1, max_size=len(draft) + 1)
    )
    limit = data.draw(st.integers(1, 9))
    text, stands, done = mend(draft, chosen, limit, MARKS)
    assert text[:stands] == text and len(text) <= limit
    assert text == chosen[: len(text)] and END not in text
    ended = len(text) < len(chosen) and chosen[len(text)] == END
    assert done == (len(text) == limit or (ended and text == draft[: len(text)]))


def test_limits_and_ends(model):
    room = model.config.max_position_embeddings
    assert length_limit(model, 11) == 26 and length_limit(model, room) == room - 1
    assert until_end([5, 6, END, 7], MARKS) == [5, 6] and until_end([5, PAD], MARKS) == [5]
    assert until_end([5], MARKS) == [5]


def test_marks_are_those_of_the_configuration(model):
    assert marks_of(model) == MARKS
    bare = SimpleNamespace(pad_token_id=0, eos_token_id=2, decoder_start_token_id=None)
    with pytest.raises(ValueError, match=r"configuration names .*start=None"):
        marks_of(SimpleNamespace(config=bare))


def test_kinds_are_told_apart(model):
    kinds = [(block.kind, block.layer) for block in find_heads(model)]
    assert sorted(kinds) == [(k, i) for k in ("dec-dec", "enc-dec", "enc-enc") for i in (0, 1)]
    assert np.array_equal([block.n_heads for block in find_heads(model)], 6 * [4])
