"""Translations under many masks are those that ``generate`` makes under each of them."""

from functools import partial

import numpy as np
import pytest
import torch
from tiny import TWO_SIDED, build
from transformers import MarianConfig, MarianMTModel

from headprune_lib import head_mask, masked_heads, ones_mask
from headprune_lib.ablation import all_but_one_masks, one_head_masks
from headprune_lib.losses import cross_entropy
from headprune_lib.masking import masked_rows
from headprune_lib.replication.models.generation import (
    generate,
    marks_of,
    searched_under,
    translations_under,
)
from headprune_lib.utils import teacher_forced, without_labels

# none of them what other models of these tests have: the configuration alone says which they are
PAD, END, START = 0, 2, 3


@pytest.fixture(scope="module")
def model():
    """Random weights, so large that heads matter, that do not repeat themselves and that end."""
    own = {"vocab_size": 40, "max_position_embeddings": 200, "activation_function": "relu"}
    own |= {"pad_token_id": PAD, "eos_token_id": END, "decoder_start_token_id": START}
    config = MarianConfig(**TWO_SIDED | own, scale_embedding=True)
    model = MarianMTModel(config).double().eval()
    torch.manual_seed(3)
    for name, weight in model.named_parameters():
        if weight.requires_grad and "layer_norm.weight" not in name:
            std = 0.5 if "shared" in name else 0.3 if weight.ndim == 2 else 0.01
            torch.nn.init.normal_(weight, std=std)
    # tied to the embeddings it would predict the word that it was given
    model.lm_head.weight = torch.nn.Parameter(torch.randn(40, 16).double())
    model.final_logits_bias[0, [END, PAD]] = torch.tensor([1.0, -torch.inf]).double()  # a user's
    return model


@pytest.fixture(scope="module")
def sources():
    generator = torch.Generator().manual_seed(1)
    return [
        [*torch.randint(4, 40, (n,), generator=generator).tolist(), END]
        for n in (4, 9, 5, 7, 12, 6, 8, 3)
    ]


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("beams", "every"),
    [
        (3, 7),
        pytest.param(1, 7, marks=SLOW),
        pytest.param(1, 1, marks=SLOW),
        pytest.param(3, 1, marks=SLOW),
    ],
)
def test_translations_under_masks_are_those_of_generate(model, sources, beams, every):
    size = 3 if beams == 1 else 128  # a greedy translation does not depend on its batch
    search = partial(
        generate, model, sources, beams=beams, early_stopping=beams > 1, batch_size=size
    )
    drafts, marks, changed = search(), marks_of(model), 0
    assert len({*map(tuple, drafts)}) > 5 and len({*map(len, drafts)}) > 4
    cuts = [*one_head_masks(model).values(), *all_but_one_masks(model).values()]
    masks = [ones_mask(model), *cuts[::every]]
    if beams > 1:
        found = searched_under(model, sources, drafts, masks, beams=beams)
    else:
        found = translations_under(model, sources, drafts, masks)
    ended = [[*draft, marks.end] for draft in drafts]
    batch = teacher_forced(sources, ended, marks.pad, marks.start)
    for mask, one in zip(masks, found, strict=True):
        with masked_heads(model, mask), torch.inference_mode():
            expected, losses = search(), cross_entropy(model(**without_labels(batch)), batch)
        assert one.ids == expected
        np.testing.assert_allclose(one.draft_loss, losses.numpy(), rtol=1e-9)
        changed += sum(new != old for new, old in zip(expected, drafts, strict=True))
    assert found[0].ids == drafts
    assert 0 < changed < len(masks[1:]) * len(sources)  # some drafts stand, others do not


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
        pytest.raises(ValueError, match="the batch has 5 rows, not a multiple of the 2 masks"),
        masked_rows(model, masks[1:], [0, 1]),
    ):
        model(input_ids=ids, decoder_input_ids=ids)
