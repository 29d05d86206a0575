"""Made-up text for the smoke profile: meaningless, and quick to train on."""

from __future__ import annotations

import random
from functools import cache
from typing import TYPE_CHECKING

from headprune_lib.replication.data.texts import Splits, Texts, split_by_chapter, split_by_hash

if TYPE_CHECKING:
    import transformers

WORDS = {
    1: ["good", "fine", "warm", "bright", "glad", "sharp"],
    0: ["bad", "dull", "cold", "grim", "sad", "blunt"],
    None: ["the", "film", "a", "plot", "is", "was", "and", "it", "very", "cast", "scene", "book"],
}


def sentences(seed: int) -> Splits:
    """Sentences whose label is given away by their words."""
    generator, labels = random.Random(seed), {}
    for _ in range(320):
        label = generator.randrange(2)
        words = generator.choices(WORDS[None], k=generator.randint(3, 10))
        words += generator.choices(WORDS[label], k=generator.randint(1, 3))
        generator.shuffle(words)
        labels[" ".join(words)] = label
    shares = {"test": 0.3, "valid": 0.1, "train": 0.6}
    return split_by_hash(Texts(tuple(labels), tuple(labels.values())), shares)


def pairs(seed: int) -> Splits:
    """Pairs of sentences, alike (1) if both have the same sentiment."""
    splits = {}
    for name, examples in sentences(seed).items():
        half = len(examples) // 2
        first, second = examples.first(half), examples.after(half).first(half)
        alike = tuple(int(a == b) for a, b in zip(first.labels, second.labels, strict=True))
        splits[name] = Texts(first.texts, alike, second.texts)
    return splits


@cache
def translations(swap: bool = False) -> Splits:
    """Sentences of made-up words, each word with its one translation; in capitals if ``swap``."""
    generator = random.Random(0)
    words = [first + second for first in "bdgk" for second in "aeou"]
    rows = []
    for chapter in range(1, 201):
        for verse in range(1, 7):
            pair = generator.choices(words, k=2)  # "ba du ba du ba": easy to learn in seconds
            chosen = [pair[i % 2] for i in range(generator.randint(5, 9))]
            target = [word[::-1] for word in chosen]
            source = [word.upper() if swap else word for word in chosen]
            rows.append((" ".join(source), " ".join(target), (1, chapter, verse)))
    return split_by_chapter(rows, {"test": 0.15, "valid": 0.15, "score": 0.15})


def word_tokenizer() -> transformers.PreTrainedTokenizerBase:
    """A tokenizer for the made-up sentences, with one token per word."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words += [word for group in (1, 0, None) for word in WORDS[group]]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
