"""Made-up text for the smoke profile: meaningless, and quick to train on."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from headprune_lib.replication.data.texts import Texts, split_by_hash

if TYPE_CHECKING:
    import transformers

WORDS = {
    1: ["good", "fine", "warm", "bright", "glad", "sharp"],
    0: ["bad", "dull", "cold", "grim", "sad", "blunt"],
    None: ["the", "film", "a", "plot", "is", "was", "and", "it", "very", "cast", "scene", "book"],
}
Splits = dict[str, Texts]
_SHARES = {"test": 0.3, "valid": 0.1, "train": 0.6}


def synthetic(seed: int) -> Callable[[], Splits]:
    """Loader of sentences whose label is given away by their words."""

    def load() -> Splits:
        generator, rows = random.Random(seed), []
        for _ in range(320):
            label = generator.randrange(2)
            words = generator.choices(WORDS[None], k=generator.randint(3, 10))
            words += generator.choices(WORDS[label], k=generator.randint(1, 3))
            generator.shuffle(words)
            rows.append((" ".join(words), label))
        unique = dict(rows)
        return split_by_hash(Texts(tuple(unique), tuple(unique.values())), _SHARES)

    return load


def synthetic_pairs(seed: int) -> Callable[[], Splits]:
    """Loader of pairs of sentences, alike (1) if both have the same sentiment."""

    def load() -> Splits:
        def paired(examples: Texts) -> Texts:
            half = len(examples) // 2
            first, second = examples.labels[:half], examples.labels[half : 2 * half]
            alike = tuple(int(a == b) for a, b in zip(first, second, strict=True))
            return Texts(examples.texts[:half], alike, examples.texts[half : 2 * half])

        return {name: paired(examples) for name, examples in synthetic(seed)().items()}

    return load


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
