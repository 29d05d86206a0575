"""Scores from counts: BLEU is sacrebleu's, and of classes what others compute."""

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from headprune_lib.replication import metrics
from headprune_lib.replication.metrics import corpus_bleu, pack, sentence_counts, signature, unpack

WORDS = st.lists(st.sampled_from(["the", "cat", "sat", "on", "a", "mat", "."]), max_size=12)
SENTENCES = st.lists(st.tuples(WORDS.map(" ".join), WORDS.map(" ".join)), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(SENTENCES)
def test_corpus_bleu_is_sacrebleus(pairs):
    hypotheses, references = map(list, zip(*pairs, strict=True))
    ours = corpus_bleu(sentence_counts(hypotheses, references).sum(0))
    assert ours == pytest.approx(sacrebleu.corpus_bleu(hypotheses, [references]).score, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(SENTENCES)
def test_five_counts_hold_all_ten(pairs):
    counts = sentence_counts(*map(list, zip(*pairs, strict=True)))
    np.testing.assert_array_equal(unpack(pack(counts), counts[:, -1]), counts)
    both = np.stack([counts, counts])
    np.testing.assert_array_equal(unpack(pack(both), counts[:, -1]), both)


def test_signature_and_errors():
    assert "tok:13a" in signature() and "smooth:exp" in signature()
    with pytest.raises(ValueError, match="shorter"):
        sentence_counts(["a", "b"], ["a"])


def test_matthews_and_f1_golden():
    target, predicted = np.random.default_rng(0).integers(0, 2, size=(2, 300))
    cells = metrics.confusion(target, predicted).sum(axis=0)
    assert cells.sum() == 300
    assert metrics.matthews(cells) == pytest.approx(np.corrcoef(target, predicted)[0, 1])
    assert metrics.f1(np.array([6, 2, 4, 100])) == pytest.approx(12 / 18)
    assert metrics.matthews(np.array([0, 0, 4, 9])) == metrics.f1(np.array([0, 0, 0, 9])) == 0
