"""BLEU of translators, on rows of text."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from importlib.util import find_spec

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headprune_lib.batching import Batch
from headprune_lib.cli.text_batches import kind_of, positions
from headprune_lib.running import on_device

_SOURCE = ("input_ids", "attention_mask")


def check_bleu(model: PreTrainedModel) -> None:
    """Refuse before minutes are spent.

    Raises:
        ValueError: the model does not translate, or sacrebleu is not installed.
    """
    if kind_of(model) != "translation":
        raise ValueError(
            f"--bleu is for translators, {type(model).__name__} is for {kind_of(model)}"
        )
    if find_spec("sacrebleu") is None:
        raise ValueError(
            "--bleu needs sacrebleu, not installed: pip install 'headprune[translation]'"
        )


def bleu(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    numbered: Sequence[tuple[list[int], Batch]],
    references: Sequence[str],
    max_length: int,
) -> float:
    """sacrebleu's BLEU, 0 to 100, of the translations that the model's generation settings give.

    Args:
        numbered: sources as :func:`headprune_lib.cli.text_batches.numbered_batches` makes them,
            once for all models that are compared.
        references: what translations are compared with, in the order of the rows.
        max_length: pieces that a translation has at most.
    """
    import sacrebleu

    settings = copy.deepcopy(model.generation_config)
    settings.max_length = None  # of which transformers would warn beside the other
    settings.max_new_tokens = min(max_length, positions(model) or max_length)
    translations = [""] * len(references)
    device = next(model.parameters()).device
    for members, batch in numbered:
        # decoder_input_ids are the reference, which a translation must not see
        source = on_device({name: batch[name] for name in _SOURCE if name in batch}, device)
        with torch.inference_mode():
            pieces = model.generate(**source, generation_config=settings)
        texts = tokenizer.batch_decode(pieces, skip_special_tokens=True)
        for i, text in zip(members, texts, strict=True):
            translations[i] = text
    return sacrebleu.corpus_bleu(translations, [list(references)]).score
