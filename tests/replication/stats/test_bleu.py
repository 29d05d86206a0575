"""BLEU from counts is sacrebleu's, and the paired bootstrap over it is sacrebleu's too."""

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from headprune_lib.replication import stats
from headprune_lib.replication.stats.bleu import (
    corpus_bleu,
    pack,
    sentence_counts,
    signature,
    unpack,
)

WORDS = st.lists(st.sampled_from(["the", "cat", "sat", "on", "a", "mat", "."]), max_size=12)
SENTENCES = st.lists(st.tuples(WORDS.map(" ".join), WORDS.map(" ".join)), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(SENTENCES)
def test_corpus_bleu_is_sacrebleus(pairs):
    hypotheses, references = map(list, zip(*pairs, strict=True))
    ours = corpus_bleu(sentence_counts(hypotheses, references).sum(0))
    assert ours == pytest.approx(sacrebleu.corpus_bleu(hypotheses, [references]).score, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(SENTENCES)
def test_of_tokens_it_is_sacrebleus_without_a_tokenizer(pairs):
    hypotheses, references = map(list, zip(*pairs, strict=True))
    hypotheses = [line.replace("mat", "m.a-t &apos;s") for line in hypotheses]
    ours = corpus_bleu(sentence_counts(hypotheses, references, "none").sum(0))
    theirs = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none", force=True).score
    assert ours == pytest.approx(theirs, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(SENTENCES)
def test_five_counts_hold_all_ten(pairs):
    counts = sentence_counts(*map(list, zip(*pairs, strict=True)))
    np.testing.assert_array_equal(unpack(pack(counts), counts[:, -1]), counts)
    both = np.stack([counts, counts])
    np.testing.assert_array_equal(unpack(pack(both), counts[:, -1]), both)


def test_many_sums_at_once():
    counts = sentence_counts(["the cat sat on a mat", "a cat"], ["the cat sat on the mat", "a cat"])
    both = corpus_bleu(np.stack([counts[:1].sum(0), counts.sum(0)]))
    assert both.shape == (2,)
    assert both[0] == corpus_bleu(counts[0])


def test_the_paired_bootstrap_agrees_with_sacrebleus():
    rng = np.random.default_rng(0)
    references = [" ".join(rng.choice(list("abcdefgh"), 15)) for _ in range(120)]

    def noisy(share):
        return [
            " ".join(
                rng.choice(list("abcdefgh")) if rng.random() < share else word
                for word in line.split()
            )
            for line in references
        ]

    first, second = noisy(0.20), noisy(0.24)
    theirs = PairedTest(
        [("uncut", first), ("cut", second)],
        {"BLEU": BLEU(references=[references])},
        references=None,
        test_type="bs",
        n_samples=4000,
    )()[1]["BLEU"][1]
    counts = sentence_counts(first, references), sentence_counts(second, references)
    ours = stats.paired_bootstrap(corpus_bleu, counts[0], counts[1][None], 4000, seed=1)
    assert ours.value[0] == pytest.approx(
        sacrebleu.corpus_bleu(second, [references]).score
        - sacrebleu.corpus_bleu(first, [references]).score,
        abs=1e-9,
    )
    # sacrebleu centres the resampled |differences| and counts those beyond the observed one: where
    # nearly all have one sign, as here, that is the one-sided p, half of ours
    assert 0.01 < ours.p[0] / 2 == pytest.approx(theirs.p_value, abs=0.012)


def test_signature_and_errors():
    assert "tok:13a" in signature() and "smooth:exp" in signature()
    with pytest.raises(ValueError, match="2 hypotheses but 1 references"):
        sentence_counts(["a", "b"], ["a"])
