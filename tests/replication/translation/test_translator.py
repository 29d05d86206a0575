"""Text into pieces and back, and what BLEU counts of it."""

from types import SimpleNamespace

import numpy as np
import pytest
import sacrebleu

from headprune_lib.fairseq_import import FairseqTranslator
from headprune_lib.fairseq_import.load import Dictionary, Splitter
from headprune_lib.replication.data import Moses
from headprune_lib.replication.metrics import corpus_bleu
from headprune_lib.replication.translation.translator import BESIDE, MosesPieces

TEXTS = ["It’s a well-known cat.", 'He said: "No!"', "A & B sat on the mat."]
EN = Moses("en", aggressive=True, straight=True)


@pytest.fixture
def pieces(tmp_path):
    words = sorted({word for text in TEXTS for word in EN.tokens(text).split()})
    (tmp_path / "dict.txt").write_text("".join(f"{word} 1\n" for word in words))
    both = Dictionary(tmp_path / "dict.txt")
    model = SimpleNamespace(config=SimpleNamespace(max_position_embeddings=9))
    return MosesPieces(FairseqTranslator(model, both, both, Splitter(None)), EN, EN)


def test_tokens_become_ids_and_text_again(pieces):
    rows = pieces.targets(TEXTS)
    assert pieces.sources(TEXTS) == rows
    assert pieces.tokens(rows) == [EN.tokens(text) for text in TEXTS]
    assert pieces.tokens(rows)[0] == "It &apos;s a well @-@ known cat ."
    assert pieces.texts(rows) == [text.replace("’", "'") for text in TEXTS]


def test_bleu_of_moses_tokens_and_sacrebleus_own(pieces):
    made = ["A well-known cat sat on the mat.", "No!", "A & B sat on a mat."]
    found = pieces.counts(pieces.targets(made), TEXTS)
    tokens = pieces.tokens(pieces.targets(made))
    wanted = [EN.tokens(text) for text in TEXTS]
    for counts, score in (
        (found[""], sacrebleu.corpus_bleu(tokens, [wanted], tokenize="none", force=True)),
        (found[BESIDE], sacrebleu.corpus_bleu(pieces.texts(pieces.targets(made)), [TEXTS])),
    ):
        assert float(corpus_bleu(counts.sum(0))) == pytest.approx(score.score, abs=1e-9)
    assert not np.array_equal(found[""], found[BESIDE])


def test_lower_case_is_compared_with_lower_case(pieces):
    lower = MosesPieces(pieces.fairseq, EN, Moses("en", lower=True))
    assert lower.target.tokens("The Cat.") == "the cat ."
    counts = lower.counts(pieces.targets(["on the mat ."]), ["On The Mat."])
    assert float(corpus_bleu(counts[BESIDE].sum(0))) == pytest.approx(100)
