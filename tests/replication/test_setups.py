"""Setups: losses of passages are what a plain loop over tokens gives, masks cut what they say."""

import math
import pickle

import numpy as np
import plainly
import pytest

from headprune_lib import find_heads, head_importance, head_mask, masking, rank_heads
from headprune_lib.ablation import one_head_masks
from headprune_lib.attention import eager_attention
from headprune_lib.replication import lazy, measurements
from headprune_lib.replication.measurements.language_curve import (
    ORDERS,
    PER_GROUP,
    WHOLE_GROUPS,
    first_heads,
    steps_of,
)
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.setups import LanguageSubject
from headprune_lib.replication.store import Journal
from headprune_lib.replication.store.packing import heads_in


@pytest.fixture
def subject():
    return LanguageSubject.of(load_profile("smoke"), "made-up")


def test_losses_are_those_of_a_plain_loop(subject, tmp_path):
    assert len({len(ids) for ids in subject.test}) > 1, "some passages are padded"
    expected = plainly.passage_nats(subject.model, subject.test)
    np.testing.assert_allclose(subject.losses(subject.model), expected, rtol=1e-5)
    journal, n = Journal(tmp_path), len(subject.swept)
    swept, masks = subject.without_each(journal), one_head_masks(subject.model)
    np.testing.assert_allclose(swept["loss_uncut"], expected[:n], rtol=1e-5)
    for (layer, head), losses in zip(swept["heads"], swept["loss"], strict=True):
        mask = masks["self", layer, head]
        cut = plainly.passage_nats(subject.model, subject.swept, mask)
        np.testing.assert_allclose(losses, cut, rtol=1e-5)
    named = {f"without {head}": mask for (_, _, head), mask in [*masks.items()][:3]}
    found = subject.outcomes(named, subject.swept, journal, "three masks")["loss"]
    np.testing.assert_allclose(found, swept["loss"][:3], rtol=1e-5)
    assert all(journal.done(f"{subject.key} {name}") for name in named)
    again = pickle.loads(pickle.dumps(subject))  # as a worker loads it
    assert (again.task, again.profile) == (subject.task, subject.profile)
    np.testing.assert_array_equal(again.losses(again.model), subject.losses(subject.model))


def test_what_is_imported_late_reaches_a_worker():
    assert pickle.loads(pickle.dumps(lazy.masking)) is masking


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
    seen = [token for ids in (*subject.tuning, *subject.scoring) for token in ids[1:]]
    size = subject.model.config.vocab_size
    expected = [  # by smoothed counts
        -sum(math.log((seen.count(token) + 1) / (len(seen) + size)) for token in ids[1:])
        for ids in subject.test
    ]
    np.testing.assert_allclose(subject.frequency_loss, expected, rtol=1e-12)


def test_orders_are_the_librarys_and_groups_go_whole_or_evenly(subject, tmp_path):
    journal, before = Journal(tmp_path), subject.model.config._attn_implementation
    (block, *_) = find_heads(subject.model)
    groups = {tuple(group) for group in block.groups}
    whole = steps_of(subject, journal, WHOLE_GROUPS)
    for step in whole:
        assert tuple(head for _, _, head in step) in groups
    for step in steps_of(subject, journal, PER_GROUP):
        assert all(len({head for *_, head in step} & {*group}) == 1 for group in groups)
    with pytest.raises(ValueError, match="scored once"):
        steps_of(subject, journal, "importance rescored")
    assert [len(first_heads(whole, share)) for share in (0, 0.2, 0.25, 0.3, 1)] == [0, 2, 2, 4, 8]
    found = [head for (head,) in steps_of(subject, journal, "importance")]
    assert subject.model.config._attn_implementation == before != "eager"
    with eager_attention(subject.model):
        scores = head_importance(subject.model, subject.batches(subject.scoring))
    assert found == rank_heads(scores)


@pytest.mark.slow
def test_a_curve_is_the_loss_under_the_masks_of_its_order(smoke, subject):
    result = measurements.get("language_curve", smoke)
    assert set(result.parts) == set(ORDERS)
    for name, part in result.parts.items():
        raw, step = part.raw, 2
        mask = head_mask(subject.model, heads_in(raw["order"][-1])[: raw["gone"][-1][step]])
        expected = plainly.passage_nats(subject.model, subject.test, mask)
        found = (raw["loss_uncut"] + raw["loss_change"][-1, step]) / 1000
        np.testing.assert_allclose(found, expected, atol=2e-3, err_msg=name)


@pytest.mark.slow
def test_removed_heads_are_masked_ones_and_training_moves_a_copy(smoke, subject, tmp_path):
    result, before = measurements.get("language_recovery", smoke), subject.losses(subject.model)
    assert list(result.parts) == ["removed 0%", "removed 30%"]
    steps = steps_of(subject, Journal(tmp_path), PER_GROUP)
    for part, share in zip(result.parts.values(), (0, 0.3), strict=True):
        mask = head_mask(subject.model, first_heads(steps, share))
        expected = plainly.passage_nats(subject.model, subject.test, mask)
        np.testing.assert_allclose(part.raw["loss_pruned"] / 1000, expected, atol=2e-3)
        assert np.abs(part.raw["loss_tuned"] - part.raw["loss_pruned"]).max() > 5
    uncut, cut = result.values["recovered"]
    assert uncut["left"] == uncut["parameters"] > cut["left"] and cut["removed"] == 4
    np.testing.assert_array_equal(subject.losses(subject.model), before)
