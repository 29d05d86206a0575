"""Translations by beam search under many masks: sentences and masks share batches.

A beam that loses under one mask may win under another, so that nothing of the unmasked model's search
stands as its draft does in greedy decoding; every mask is searched anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headprune_lib.losses import cross_entropy
from headprune_lib.masking import HeadTensors, gated, masked_heads, stacked_masks
from headprune_lib.replication.generation.drafts import Translations
from headprune_lib.replication.generation.greedy import Ids, length_limit, marks_of, until_end
from headprune_lib.utils import (
    Batch,
    OomLimit,
    pad,
    split_on_oom,
    teacher_forced,
    to_device,
    without_labels,
)

if TYPE_CHECKING:
    from jaxtyping import Float

_SEARCHED_TOGETHER = 256
"""Sentences, each counted once a mask, that share a batch where memory has room for it."""


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

    The search is fairseq's: it ends with as many ended translations as beams, and ranks them by the
    mean log-probability of a piece.

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
    found: list[Translations] = []
    oom_limit = OomLimit()
    for start in range(0, len(masks), at_once):
        part = masks[start : start + at_once]
        repeated = ids.repeat(len(part), 1)
        batch = {
            "input_ids": repeated,
            "attention_mask": (repeated != marks.pad).long(),
            "mask": torch.arange(len(part)).repeat_interleave(n),
        }
        search = partial(_search, model, stacked_masks(model, part), beams, max(limits))
        texts = split_on_oom(
            search, to_device(batch, device), lambda halves: [*halves[0], *halves[1]], oom_limit
        )
        for number, mask in enumerate(part):
            own = texts[number * n : (number + 1) * n]
            with masked_heads(model, mask):  # logits of all masks at once would take gigabytes
                losses = cross_entropy(model(**without_labels(scored)), scored)
            cut = [text[:limit] for text, limit in zip(own, limits, strict=True)]
            found.append(Translations(cut, losses.double().cpu().numpy()))
    return found


def _search(
    model: PreTrainedModel,
    stacked: dict[str, Float[Tensor, "layer mask head"]],
    beams: int,
    limit: int,
    batch: Batch,
) -> list[Ids]:
    """Translations of a batch's rows, each under the mask whose number ``batch["mask"]`` has."""
    rows = batch["mask"].tolist()
    with gated(model, {kind: values[:, rows] for kind, values in stacked.items()}):
        made = model.generate(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            num_beams=beams,
            do_sample=False,
            early_stopping=True,
            max_new_tokens=limit,
        )
    return [until_end(row, marks_of(model)) for row in made[:, 1:].tolist()]
