"""Which texts, checkpoints and random orders a measurement takes."""

import dataclasses
import itertools
import math

import pytest
import torch

from headprune_lib.discovery import KINDS
from headprune_lib.replication.data import TASKS, Texts
from headprune_lib.replication.measurements.checkpoints import Point, chosen, further_masks
from headprune_lib.replication.measurements.scores import DRAWS, drawn, sizes_of
from headprune_lib.replication.measurements.translators import shared_ngrams
from headprune_lib.replication.profiles import Checkpoints, load_profile
from headprune_lib.replication.setups import EncoderSubject, TranslationSubject


def test_sentences_of_scores_and_of_choices_are_apart():
    subject = EncoderSubject(load_profile("smoke"), 1, None, "")
    subject.check_apart()
    train = TASKS["synthetic"].split("train", None)
    assert (
        subject.selection.texts == train.texts[:32] and subject.scoring.texts == train.texts[-32:]
    )
    used = EncoderSubject(load_profile("smoke", n_used=5), 1, None, "")
    assert used.test.texts == TASKS["synthetic"].split("test", None).texts[5:53]
    for more in ({"n_selection": len(train) - 31}, {"n_scoring": len(train) - 31}):
        with pytest.raises(ValueError, match=r"so that no sentence is in both"):
            EncoderSubject(load_profile("smoke", **more), 1, None, "").check_apart()


def test_draws_share_no_sentence_and_the_larger_contain_the_smaller():
    texts = Texts(tuple(map(str, range(4000))), tuple(i % 2 for i in range(4000)))
    found = {(n, draw): {*some.texts} for n, draw, some in drawn(texts)}
    assert [*found] == [*itertools.product((16, 64, 256, 1000), range(3)), (4000, 0)]
    for (n, draw), some in found.items():
        assert len(some) == n and some <= found.get((n * 4, draw), some)
    for one, other in itertools.combinations(range(DRAWS), 2):
        assert not found[1000, one] & found[1000, other]
    (_, _, some), *_ = drawn(texts)
    assert [int(text) % 2 for text in some.texts] == [*some.labels]
    assert sizes_of(4000) == (16, 64, 256, 1000, 4000) and sizes_of(60) == (16, 60)


def test_pairs_that_share_ngrams_with_the_training_text():
    train = Texts(("a b c d e f",), second=("one two",))
    test = Texts(("x B, c D e", "b c d", "c d x"), second=("y", "y", "y"))
    assert shared_ngrams(train, test, 3).tolist() == [True, True, False]
    assert shared_ngrams(train, test, 4).tolist() == [True, False, False]


def test_checkpoints_are_matched_by_share_of_the_best_bleu():
    bleus = enumerate((1, 3, 11, 16, 17, 20, 19), 1)
    epochs = [Point(10 * epoch, epoch, bleu, {"epoch": epoch}) for epoch, bleu in bleus]
    shares = [0.09, 0.18, 0.52, 0.77, 0.88, 0.99, 1.0]
    wanted = Checkpoints(shares, False, None, False, None, None)
    assert [point.epoch for point in chosen(epochs, wanted)] == [1, 2, 3, 4, 5, 6]
    start = Point(0, 0.0, math.nan, {"update": 0})
    quarter = Point(18, 1.75, 1.9, {"update": 18})  # 9.5% of the best
    wanted = dataclasses.replace(wanted, shares=[0.09, 0.5], within=True, every=3)
    found = chosen([start, epochs[0], quarter, *epochs[1:]], wanted)
    assert [point.updates for point in found] == [0, 18, 30, 60, 70]  # every third, and the last


def test_random_orders_are_the_same_for_every_checkpoint_and_training(smoke):
    """Models of two seeds and of two times share nothing but what is cut."""
    pre, found = dataclasses.replace(smoke, translation_model="pre-norm"), []
    for seed, kept in ((1, {"update": 0}), (6, {"update": 0}), (6, {"epoch": 9})):
        subject = TranslationSubject.of(pre, "toy", seed, **kept)
        plain = {kind: torch.rand(2, 4) for kind in KINDS}
        masks = further_masks(subject, plain, pre.checkpoints["pre-norm"], 10)
        found.append(torch.stack([masks["random 0"][kind] for kind in KINDS]))
    assert (found[0] == 0).sum() == 10
    assert all(torch.equal(mask, found[0]) for mask in found)
