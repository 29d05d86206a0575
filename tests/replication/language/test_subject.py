"""Losses of passages are what a plain loop over tokens gives, and masks cut what they say."""

import math

import numpy as np
import pytest
import torch

from headprune_lib import cut_heads, full_mask, masked_heads
from headprune_lib.ablation import one_head_masks
from headprune_lib.replication.language import models
from headprune_lib.replication.language.subject import LanguageSubject
from headprune_lib.replication.order_names import read_name
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.store import Journal


@pytest.fixture
def subject():
    return LanguageSubject.of(load_profile("smoke"), "made-up")


def plain_losses(model, passages):
    """Each passage by itself, each token by itself."""
    found = []
    for ids in passages:
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids])).logits[0].double()
        found.append(
            -sum(float(logits[i].log_softmax(-1)[ids[i + 1]]) for i in range(len(ids) - 1))
        )
    return np.array(found)


def test_losses_are_those_of_a_plain_loop(subject):
    lengths = {len(ids) for ids in subject.test}
    assert len(lengths) > 1, "some passages are padded"
    expected = plain_losses(subject.model, subject.test)
    np.testing.assert_allclose(subject.losses(subject.model), expected, rtol=1e-5)


def test_losses_under_masks_are_those_of_a_model_with_zeroed_heads(subject, tmp_path):
    masks = {"one": cut_heads(subject.model, [("self", 1, 2)]), "none": full_mask(subject.model)}
    found = subject.under(masks, Journal(tmp_path), "")
    with masked_heads(subject.model, masks["one"]):
        cut = plain_losses(subject.model, subject.test)
    np.testing.assert_allclose(found, [cut, plain_losses(subject.model, subject.test)], rtol=1e-5)
    assert np.abs(found[0] - found[1]).max() > 1e-3


def test_the_sweep_over_single_heads_is_that_of_their_masks(subject, tmp_path):
    swept = subject.without_each(Journal(tmp_path))
    masks = one_head_masks(subject.model)
    assert [("self", *head) for head in swept["heads"].tolist()] == list(masks)
    n = len(subject.swept)
    assert 0 < n < len(subject.test) and subject.swept == subject.test[:n]
    expected = [subject.losses(subject.model, mask)[:n] for mask in masks.values()]
    np.testing.assert_allclose(swept["loss"], expected, rtol=1e-5)
    np.testing.assert_allclose(swept["loss_uncut"], subject.losses(subject.model)[:n], rtol=1e-5)


def test_passages_hold_the_tokens_that_were_asked_for_and_are_apart(subject):
    settings = subject.profile.language
    for passages, wanted in (
        (subject.test, settings.test_tokens),
        (subject.scoring, settings.scoring_tokens),
    ):
        held = [len(ids) - 1 for ids in passages]
        assert sum(held[:-1]) < wanted <= sum(held) and max(held) <= settings.length
    assert not {*map(tuple, subject.scoring)} & {*map(tuple, subject.tuning)}
    assert subject.tokens.tolist() == [len(ids) - 1 for ids in subject.test]


def test_the_loss_by_frequency_is_that_of_smoothed_counts(subject):
    seen = [token for ids in (*subject.tuning, *subject.scoring) for token in ids[1:]]
    size = subject.model.config.vocab_size
    expected = [
        -sum(math.log((seen.count(token) + 1) / (len(seen) + size)) for token in ids[1:])
        for ids in subject.test
    ]
    np.testing.assert_allclose(subject.frequency_loss, expected, rtol=1e-12)


def test_scores_leave_the_model_with_its_kernel(subject, tmp_path):
    before = subject.model.config._attn_implementation
    for name in ("importance", "entropy"):
        found = subject.scores(Journal(tmp_path), read_name(name))["self"]
        assert found.shape == (2, 4) and found.isfinite().all()
    assert subject.model.config._attn_implementation == before != "eager"


def test_a_worker_loads_it_anew(subject):
    import pickle

    again = pickle.loads(pickle.dumps(subject))
    assert (again.task, again.profile) == (subject.task, subject.profile)
    np.testing.assert_array_equal(again.losses(again.model), subject.losses(subject.model))


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(models, "find_spec", lambda name: None)
    with pytest.raises(
        ValueError, match=r"gguf is not installed: pip install 'headprune\[language\]'"
    ):
        models.load_language_model("smollm2")
