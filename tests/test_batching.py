import numpy as np
import pytest

from headprune_lib.batching import make_batches
from headprune_lib.data import Examples
from headprune_lib.models import load_tokenizer


def test_batches_are_sorted_padded_and_restored():
    tokenizer = load_tokenizer("tiny")
    examples = Examples(("good film", "the plot is dull", "bad", "a very very very good cast"),
                        (1, 0, 0, 1))
    made = make_batches(tokenizer, examples, 3, 5)
    assert made.n_truncated == 2  # with [CLS] and [SEP], 6 and 8 tokens
    assert [tuple(b["input_ids"].shape) for b in made.batches] == [(3, 5), (1, 5)]
    labels = [label for b in made.batches for label in b["labels"].tolist()]
    assert made.restore(np.array(labels)).tolist() == [1, 0, 0, 1]
    with pytest.raises(ValueError, match="dataset is empty"):
        make_batches(tokenizer, Examples((), ()), 3, 5)
