"""Batched generation: length-sorted batches, key-value cache, one limit for every mask."""

from __future__ import annotations

from collections.abc import Sequence

import sentencepiece
import torch
from torch import nn

from headprune_lib.batching import by_length, pad
from headprune_lib.translation.models import END, PAD


def length_limit(model: nn.Module, n_source: int) -> int:
    """Most tokens, end mark included, of a translation of ``n_source`` tokens (end mark included).

    1.5 times the source and 10, whatever the mask: broken models would otherwise run to the
    model's maximum, which is the limit where it is lower. One position is the start mark's.
    """
    return min(int(1.5 * n_source) + 10, model.config.max_position_embeddings - 1)


@torch.inference_mode()
def generate(model: nn.Module, sources: Sequence[Sequence[int]], *, batch_size: int = 128,
             beams: int = 1) -> list[list[int]]:
    """Translations as ids without the end mark, in the order of ``sources`` (ids with end mark).

    Each is cut at its own limit, so that it does not depend on the sentences it shares a batch with.
    """
    device = next(model.parameters()).device
    outputs: list[list[int]] = [[] for _ in sources]
    for members in by_length(sources, batch_size):
        ids = pad([sources[i] for i in members], PAD).to(device)
        made = model.generate(
            input_ids=ids, attention_mask=(ids != PAD).long(), num_beams=beams, do_sample=False,
            max_new_tokens=length_limit(model, max(len(sources[i]) for i in members)),
        )
        for i, row in zip(members, made[:, 1:].tolist(), strict=True):
            outputs[i] = until_end(row)[: length_limit(model, len(sources[i]))]
    return outputs


def until_end(row: list[int]) -> list[int]:
    """The ids before the first end mark or padding."""
    for place, piece in enumerate(row):
        if piece in (END, PAD):
            return row[:place]
    return row


def detokenise(vocabulary: sentencepiece.SentencePieceProcessor, rows: Sequence[Sequence[int]]) -> list[str]:
    """The text of each row of ids."""
    return vocabulary.decode([list(row) for row in rows])
