"""Batched generation: length-sorted batches, key-value cache, one limit for every mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from transformers import PreTrainedModel

from headprune_lib.utils import Batch, OomLimit, by_length, pad, split_on_oom, to_device

Ids = list[int]
"""Pieces of a sentence, by their numbers."""


class Marks(NamedTuple):
    """Ids that stand for no word: padding, the end of a sentence, and what decoding starts with."""

    pad: int
    end: int
    start: int


def marks_of(model: PreTrainedModel) -> Marks:
    """The marks that a model's configuration names.

    Raises:
        ValueError: one of them is missing.
    """
    config = model.config
    found = Marks(config.pad_token_id, config.eos_token_id, config.decoder_start_token_id)
    if None in found:
        raise ValueError(
            f"{type(model).__name__}'s configuration names {found}; set pad_token_id, "
            "eos_token_id and decoder_start_token_id"
        )
    return found


def length_limit(model: PreTrainedModel, n_source: int) -> int:
    """Most tokens, end mark included, of a translation of ``n_source`` tokens (end mark included).

    1.5 times the source and 10, whatever the mask: broken models would otherwise run to the
    model's maximum, which is the limit where it is lower. One position is the start mark's.
    """
    return min(int(1.5 * n_source) + 10, model.config.max_position_embeddings - 1)


@torch.inference_mode()
def generate(
    model: PreTrainedModel,
    sources: Sequence[Sequence[int]],
    *,
    batch_size: int = 128,
    beams: int = 1,
    early_stopping: bool = False,
) -> list[list[int]]:
    """Translations as ids without the end mark, in the order of ``sources`` (ids with end mark).

    Each is cut at its own limit, so that it does not depend on the sentences that share a
    batch with it; a batch that memory has no room for is taken in halves.

    Args:
        early_stopping: of a search with beams, whether a sentence is done once there are as many
            ended translations of it as beams, as in fairseq, or once no other can be better.
    """
    device = next(model.parameters()).device
    marks = marks_of(model)
    outputs: list[list[int]] = [[] for _ in sources]
    oom_limit = OomLimit()
    for members in by_length(sources, batch_size):
        ids = pad([sources[i] for i in members], marks.pad)
        limit = length_limit(model, ids.shape[1])

        def search(batch: Batch, limit: int = limit) -> list[Ids]:
            made = model.generate(
                **batch,
                num_beams=beams,
                do_sample=False,
                **({"early_stopping": True} if early_stopping else {}),
                max_new_tokens=limit,
            )
            return made[:, 1:].tolist()

        batch = {"input_ids": ids, "attention_mask": (ids != marks.pad).long()}
        rows = split_on_oom(
            search, to_device(batch, device), lambda halves: [*halves[0], *halves[1]], oom_limit
        )
        for i, row in zip(members, rows, strict=True):
            outputs[i] = until_end(row, marks)[: length_limit(model, len(sources[i]))]
    return outputs


def until_end(row: list[int], marks: Marks) -> list[int]:
    """The ids before the first end mark or padding."""
    for place, piece in enumerate(row):
        if piece in (marks.end, marks.pad):
            return row[:place]
    return row
