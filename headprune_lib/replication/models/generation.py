"""Batched translation, greedy or by beam search, of a model as it is or under many masks.

Sentences of like length share batches; one limit of length holds for every mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel

from headprune_lib.losses import cross_entropy
from headprune_lib.masking import HeadTensors, gated, masked_heads, stacked_masks
from headprune_lib.utils import (
    Batch,
    OomLimit,
    by_length,
    pad,
    split_on_oom,
    teacher_forced,
    to_device,
    without_labels,
)

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

Ids = list[int]
"""Pieces of a sentence, by their numbers."""
_SEARCHED_TOGETHER = 256
"""Sentences, each counted once a mask, that share a batch where memory has room for it."""


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
    marks = Marks(config.pad_token_id, config.eos_token_id, config.decoder_start_token_id)
    if None in marks:
        raise ValueError(
            f"{type(model).__name__}'s configuration names {marks}; set pad_token_id, "
            "eos_token_id and decoder_start_token_id"
        )
    return marks


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
) -> list[Ids]:
    """Translations as ids without the end mark, in the order of ``sources`` (ids with end mark).

    Each is cut at its own limit, so that it does not depend on the sentences that share a
    batch with it; a batch that memory has no room for is taken in halves.

    Args:
        early_stopping: of a search with beams, whether a sentence is done once there are as many
            ended translations of it as beams, as in fairseq, or once no other can be better.
    """
    device, marks = next(model.parameters()).device, marks_of(model)
    outputs: list[Ids] = [[] for _ in sources]
    oom_limit = OomLimit()
    for members in by_length(sources, batch_size):
        ids = pad([sources[i] for i in members], marks.pad)
        search = partial(_searched, model, length_limit(model, ids.shape[1]), beams, early_stopping)
        batch = {"input_ids": ids, "attention_mask": (ids != marks.pad).long()}
        rows = split_on_oom(search, to_device(batch, device), _joined, oom_limit)
        for i, row in zip(members, rows, strict=True):
            outputs[i] = row[: length_limit(model, len(sources[i]))]
    return outputs


def _searched(
    model: PreTrainedModel, limit: int, beams: int, early_stopping: bool, batch: Batch
) -> list[Ids]:
    """The ids of each row's translation, before the first end mark or padding."""
    generated = model.generate(
        input_ids=batch["input_ids"],
        attention_mask=batch["attention_mask"],
        num_beams=beams,
        do_sample=False,
        **({"early_stopping": True} if early_stopping else {}),
        max_new_tokens=limit,
    )
    marks = marks_of(model)
    return [_until_end(row, marks) for row in generated[:, 1:].tolist()]


def _until_end(row: Ids, marks: Marks) -> Ids:
    for position, piece in enumerate(row):
        if piece in (marks.end, marks.pad):
            return row[:position]
    return row


def _joined(halves: Sequence[list[Ids]]) -> list[Ids]:
    return [*halves[0], *halves[1]]


@dataclass
class Translations:
    """What one mask makes of a group of sentences.

    Attributes:
        ids: translations, without end mark.
        draft_loss: (sentences,) minus the log-probability, in nats, of each *draft* and its end
            under the mask.
    """

    ids: list[Ids]
    draft_loss: np.ndarray


@torch.inference_mode()
def searched_under(
    model: PreTrainedModel,
    sources: Sequence[Ids],
    drafts: Sequence[Ids],
    masks: Sequence[HeadTensors],
    *,
    beams: int,
) -> list[Translations]:
    """Translations of a group of sentences under each mask, as ``generate`` with beams makes them.

    A beam that loses under one mask may win under another, so that nothing of the unmasked model's
    search stands as its draft does in greedy decoding: every mask is searched anew, several of them
    in a batch. The search is fairseq's: it ends with as many ended translations as beams, and ranks
    them by the mean log-probability of a piece.

    Args:
        model: an encoder-decoder in evaluation mode; no masks in place.
        sources: ids with end mark, best of like length: they share batches and the limit of the
            longest.
        drafts: translations whose loss under each mask is taken too, such as the unmasked model's.
        masks: kind -> ``(layer, head)`` each.
    """
    marks, device, n = marks_of(model), next(model.parameters()).device, len(sources)
    ids = pad(sources, marks.pad)
    ended = [[*draft, marks.end] for draft in drafts]
    scored = to_device(teacher_forced(sources, ended, marks.pad, marks.start), device)
    limits = [length_limit(model, len(source)) for source in sources]
    at_once = max(1, _SEARCHED_TOGETHER // n)
    translations: list[Translations] = []
    oom_limit = OomLimit()
    for start in range(0, len(masks), at_once):
        part = masks[start : start + at_once]
        repeated = ids.repeat(len(part), 1)
        batch = {
            "input_ids": repeated,
            "attention_mask": (repeated != marks.pad).long(),
            "mask": torch.arange(len(part)).repeat_interleave(n),
        }
        search = partial(_searched_masked, model, stacked_masks(model, part), max(limits), beams)
        texts = split_on_oom(search, to_device(batch, device), _joined, oom_limit)
        for number, mask in enumerate(part):
            under_mask = texts[number * n : (number + 1) * n]
            with masked_heads(model, mask):  # logits of all masks at once would take gigabytes
                losses = cross_entropy(model(**without_labels(scored)), scored)
            cut = [text[:limit] for text, limit in zip(under_mask, limits, strict=True)]
            translations.append(Translations(cut, losses.double().cpu().numpy()))
    return translations


def _searched_masked(
    model: PreTrainedModel,
    stacked: dict[str, Float[Tensor, "layer mask head"]],
    limit: int,
    beams: int,
    batch: Batch,
) -> list[Ids]:
    """Translations of a batch's rows, each under the mask whose number ``batch["mask"]`` has."""
    rows = batch["mask"].tolist()
    with gated(model, {kind: values[:, rows] for kind, values in stacked.items()}):
        return _searched(model, limit, beams, True, batch)
