import numpy as np
import pytest

from headprune_lib.replication.data import Examples
from headprune_lib.replication.encoder.batches import make_batches
from headprune_lib.replication.pretrained import load_tokenizer


def test_both_texts_of_a_pair_are_in_the_batch():
    tokenizer = load_tokenizer("tiny")
    pairs = Examples(("good film", "bad plot is dull"), (1, 0), ("fine", "cold cast"))
    (batch,) = make_batches(tokenizer, pairs, 2, 6).batches
    words = [tokenizer.convert_ids_to_tokens(row) for row in batch["input_ids"]]
    assert words[0] == ["[CLS]", "good", "film", "[SEP]", "fine", "[SEP]"]
    assert len(words[1]) == 6 and words[1].count("[SEP]") == 2  # truncated, both ends kept
    assert batch["token_type_ids"][0].tolist() == [0, 0, 0, 0, 1, 1]
    assert batch["attention_mask"].all()


def test_batches_are_sorted_padded_and_restored():
    tokenizer = load_tokenizer("tiny")
    examples = Examples(
        ("good film", "the plot is dull", "bad", "a very very very good cast"), (1, 0, 0, 1)
    )
    made = make_batches(tokenizer, examples, 3, 5)
    assert made.n_truncated == 2  # with [CLS] and [SEP], 6 and 8 tokens
    assert [tuple(b["input_ids"].shape) for b in made.batches] == [(3, 5), (1, 5)]
    labels = [label for b in made.batches for label in b["labels"].tolist()]
    assert made.restore(np.array(labels)).tolist() == [1, 0, 0, 1]
    with pytest.raises(ValueError, match="dataset is empty"):
        make_batches(tokenizer, Examples((), ()), 3, 5)
